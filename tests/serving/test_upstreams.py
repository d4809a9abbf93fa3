"""Several servers behind one gateway: which gets a request, and what happens when some fail."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.scripted_server import ScriptedServer
from tests.serving.server_process import PATIENCE_S, Client, Start, connect
from tests.serving.test_routes import asked, serve

ROUTE = "[[route]]\npath = '/**'\nto = 'app'\n"


@pytest.fixture
def origins() -> Iterator[list[Origin]]:
    """Four servers, named a to d."""
    with ExitStack() as stack:
        yield [stack.enter_context(Origin(name)) for name in "abcd"]


def upstream(origins: list[Origin], more: str = "") -> str:
    """The tables of these servers, and a route to them."""
    servers = ", ".join(f'"{origin.address}"' for origin in origins)
    return f"[upstream.app]\nservers = [{servers}]\n{more}\n{ROUTE}"


def get(port: int, path: str = "/") -> tuple[int, str]:
    """Status and body of one response."""
    return asked(port, "GET", path)


def names(port: int, count: int) -> Counter[str]:
    """Which servers answer."""
    return Counter(get(port)[1].split()[0] for _ in range(count))


def test_requests_go_in_turn(tmp_path: Path, start: Start, origins: list[Origin]) -> None:
    port = serve(start, tmp_path, upstream(origins, "balance = 'round-robin'"))
    assert names(port, 40) == Counter(dict.fromkeys("abcd", 10))


@pytest.mark.slow
def test_the_same_path_goes_to_the_same_server(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    port = serve(start, tmp_path, upstream(origins, "balance = 'hash'"))
    first = {str(number): get(port, f"/{number}")[1] for number in range(40)}
    assert {get(port, f"/{number}")[1] for number in first} == set(first.values())
    assert {text.split()[0] for text in first.values()} == set("abcd")


@pytest.mark.slow
def test_a_field_or_the_address_of_the_client_can_decide_which_server_is_asked(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    by_user = upstream(origins, "balance = 'hash'\nhash-by = 'field:X-User'")
    port = serve(start, tmp_path, by_user)

    def server_of(path: str, fields: dict[str, str]) -> str:
        connection = connect(port)
        connection.request("GET", path, headers=fields)
        name = connection.getresponse().read().decode().split()[0]
        connection.close()
        return name

    first = {str(user): server_of("/", {"X-User": str(user)}) for user in range(40)}
    assert {user: server_of(f"/{user}", {"x-user": user}) for user in first} == first
    assert set(first.values()) == set("abcd")
    # Without the field it is the address, which is the same for all.
    assert len({server_of(f"/{number}", {}) for number in range(20)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("balance", ["least", "two-choices", "ewma"])
def test_a_busy_server_gets_nothing_more(tmp_path: Path, start: Start, balance: str) -> None:
    is_free = threading.Event()
    with Origin("slow", held_until(is_free)) as slow, Origin("fast") as fast:
        port = serve(start, tmp_path, upstream([slow, fast], f"balance = '{balance}'"))
        waiting = []
        # Until one is held, each is answered by the other.
        while not slow.requests:
            thread = threading.Thread(target=get, args=[port])
            thread.start()
            waiting.append(thread)
            while not slow.requests and thread.is_alive():
                thread.join(0.001)
        assert names(port, 20) == {"fast": 20}
        is_free.set()
        for thread in waiting:
            thread.join()


@pytest.mark.slow
def test_no_get_fails_while_one_of_four_servers_is_killed(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    port = serve(start, tmp_path, upstream(origins))
    clients = [Client(port, "GET", keeps_alive=keeps) for keeps in (True, True, True, False)]
    for client in clients:
        client.start()
    while not all(origin.requests for origin in origins):
        assert all(client.is_alive() for client in clients)
        clients[0].wait_for_an_answer()
    origins[1].kill()
    for _ in range(20):
        for client in clients:
            client.wait_for_an_answer()
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join(PATIENCE_S)
    assert [client.wrong for client in clients if client.wrong] == []
    # Its failures have ejected it.
    assert "b" not in names(port, 20)


def test_a_request_that_may_have_had_an_effect_is_sent_once(tmp_path: Path, start: Start) -> None:
    def break_off(request: object) -> tuple[int, str]:
        raise ConnectionError(request)

    with Origin("a", break_off) as one, Origin("b", break_off) as other:
        port = serve(start, tmp_path, upstream([one, other]))
        for method, expected in [("POST", 1), ("GET", 2)]:
            one.requests.clear()
            other.requests.clear()
            assert asked(port, method, "/") == (502, "Bad Gateway\n")
            assert len(one.requests + other.requests) == expected


def test_nothing_was_sent_to_a_server_that_refuses(tmp_path: Path, start: Start) -> None:
    with Origin("a") as one, Origin("b") as other:
        other.kill()
        port = serve(start, tmp_path, upstream([other, one], "balance = 'round-robin'"))
        for _ in range(4):
            assert asked(port, "POST", "/") == (200, "a /")


def test_what_exceeds_the_limit_of_a_server_waits_or_is_refused(
    tmp_path: Path, start: Start
) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as origin:
        more = "connections-max = 1\nqueue = { size = 1, time = '20s' }"
        port = serve(start, tmp_path, upstream([origin], more))
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(get(port)[0])

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        # One is at the server, one waits, and one is refused, whichever it is.
        while not statuses:
            threads[0].join(0.001)
        assert statuses == [503]
        assert len(origin.requests) <= 1
        is_free.set()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 200, 503]


def test_what_waits_too_long_is_refused(tmp_path: Path, start: Start) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as origin:
        more = "connections-max = 1\nqueue = { size = 9, time = '10ms' }"
        port = serve(start, tmp_path, upstream([origin], more))
        first = threading.Thread(target=get, args=[port])
        first.start()
        while not origin.requests:
            first.join(0.001)
        connection = connect(port)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert (response.status, response.getheader("Retry-After")) == (503, "1")
        connection.close()
        is_free.set()
        first.join()


def test_the_time_of_a_route_includes_that_in_the_queue(tmp_path: Path, start: Start) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as origin:
        more = "connections-max = 1\nqueue = { size = 9, time = '1h' }"
        table = upstream([origin], more).replace("'/**'", "'/held'")
        hasty = "[[route]]\npath = '/**'\nto = 'app'\nhead-time = '50ms'\n"
        port = serve(start, tmp_path, table + hasty)
        first = threading.Thread(target=get, args=[port, "/held"])
        first.start()
        while not origin.requests:
            first.join(0.001)
        assert get(port) == (504, "Gateway Timeout\n")
        is_free.set()
        first.join()
        assert origin.requests == ["/held"]


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_connection_is_not_kept_for_longer_than_its_server_says(
    tmp_path: Path, start: Start, seconds: int
) -> None:
    def answer(connection: socket.socket) -> None:
        field = f"Keep-Alive: timeout={seconds}"
        connection.sendall(f"HTTP/1.1 204 No Content\r\n{field}\r\n\r\n".encode())

    with ScriptedServer(answer) as server:
        text = f"[upstream.app]\nservers = ['{server.address}']\nidle-time = '1h'\n{ROUTE}"
        port = serve(start, tmp_path, text)
        assert get(port) == (204, "")
        assert server.ended.acquire(timeout=PATIENCE_S)
        assert get(port) == (204, "")
        assert server.connections == 2


@pytest.mark.slow
def test_no_more_unused_connections_are_kept_than_were_busy_lately(
    tmp_path: Path, start: Start
) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as origin:
        port = serve(start, tmp_path, upstream([origin], "idle-time = '1h'"))
        clients = [threading.Thread(target=get, args=[port]) for _ in range(5)]
        for client in clients:
            client.start()
        while len(origin.requests) < len(clients):
            clients[0].join(0.001)
        is_free.set()
        for client in clients:
            client.join()
        assert len(origin.connections) == len(clients)
        # Without further requests, too; the last one stays for its hour.
        for _ in range(int(100 * PATIENCE_S)):
            if len(origin.connections) == 1:
                break
            origin.thread.join(0.01)
        [kept] = origin.connections
        assert get(port) == (200, "held")
        assert origin.connections == {kept}


@pytest.mark.slow
def test_a_server_that_answers_late_is_asked_seldom(tmp_path: Path, start: Start) -> None:
    waiting = threading.Event()

    def answer_late(_: object) -> tuple[int, str]:
        waiting.wait(0.1)
        return 200, "late"

    with Origin("late", answer_late) as late, Origin("fast") as fast:
        file = tmp_path / "serve.toml"
        table = upstream([late, fast], "balance = 'ewma'")
        file.write_text("listen = '127.0.0.1:0'\nworkers = 2\n" + table)
        served = start("--config", str(file))
        port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        while not late.requests or not fast.requests:
            get(port)
        late.requests.clear()
        # What a worker has learnt is known to the other, and to those after a reload.
        for _ in range(2):
            assert names(port, 20)["fast"] >= 19
            served.reload()
        assert len(late.requests) <= 2


@pytest.mark.parametrize(
    ("more", "count", "status"),
    [([], 90, 200), ([], 110, 502), (["--response-fields-max", "20"], 21, 502)],
)
def test_a_response_may_have_as_many_fields_as_the_flag_says(
    start: Start, more: list[str], count: int, status: int
) -> None:
    fields = "".join(f"X-{number}: v\r\n" for number in range(count))
    response = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok".encode()
    with ScriptedServer(lambda connection: connection.sendall(response)) as server:
        served = start("--to", f"http://{server.address}", "--listen", "127.0.0.1:0", *more)
        port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        assert asked(port, "GET", "/")[0] == status


@pytest.mark.parametrize("port", ["0", "65536", "x"])
def test_a_server_has_a_port(start: Start, port: str) -> None:
    served = start("--to", f"http://127.0.0.1:{port}", "--listen", "127.0.0.1:0")
    served.wait_for("the port is that at which the server listens, 1 to 65535$")
    assert served.process.wait(PATIENCE_S) == 2
