"""Stores that handlers in C use: the same as those of Python and of the command line."""

import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from jissoku import store
from tests.c_handlers.conftest import (
    SOURCES,
    asked_sanitizer,
    check_reports,
    port_of,
    sanitizing,
    start,
    write,
)
from tests.serving.server_process import PATIENCE_S, Served, ask, connect, spawn

CONFIGURATION = """
[[route]]
path = "/**"
handler = "stores.c"

[store.shop]
size = "4MiB"
"""


LISTENS = re.compile(r"^listening on http://127\.0\.0\.1:([0-9]+)/$")


def serve(folder: Path, *arguments: str, **variables: str) -> Served:
    """Starts a server of the handler with its store."""
    shutil.copy(SOURCES / "stores.c", folder)
    configuration = write(folder, CONFIGURATION, "serve.toml")
    flags = ["--config", str(configuration), "--listen", "127.0.0.1:0", "--libs=-pthread"]
    return spawn(*flags, *arguments, XDG_CACHE_HOME=str(folder / ".cache"), **variables)


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[tuple[Path, int]]:
    """The folder of a server with two workers, and its port."""
    folder = tmp_path_factory.mktemp("shop")
    flags, variables = sanitizing(asked_sanitizer(pytestconfig))
    server = serve(folder, "--workers", "2", *flags, **variables)
    try:
        yield folder, port_of(server)
    finally:
        server.end()
    check_reports(server)


def test_values_are_written_read_and_removed(shop: tuple[Path, int]) -> None:
    folder, port = shop
    assert ask(port, "/get?k=one") == (404, b"none")
    assert ask(port, "/put?k=one&v=%00a") == (200, b"0")
    assert ask(port, "/get?k=one") == (200, b"\0a")
    assert ask(port, "/put?k=one&v=") == (200, b"0")
    assert ask(port, "/get?k=one") == (200, b"")
    assert ask(port, "/delete?k=one") == (200, b"1")
    assert ask(port, "/delete?k=one") == (200, b"0")
    assert ask(port, "/get?k=one") == (404, b"none")
    assert ask(port, "/put?k=two&v=2") == (200, b"0")
    other = store.open("shop", folder=folder / "stores")
    assert other.get("two") == b"2"
    other.put("three", b"3")
    assert ask(port, "/get?k=three") == (200, b"3")


def test_conditions_are_those_of_the_value(shop: tuple[Path, int]) -> None:
    _, port = shop
    assert ask(port, "/put-if-absent?k=if&v=1") == (200, b"1")
    assert ask(port, "/put-if-absent?k=if&v=2") == (200, b"0")
    assert ask(port, "/swap?k=if&old=2&v=3") == (200, b"0")
    assert ask(port, "/swap?k=if&v=3") == (200, b"0")
    assert ask(port, "/swap?k=if&old=1&v=") == (200, b"1")
    assert ask(port, "/swap?k=if&old=&v=4") == (200, b"1")
    assert ask(port, "/get?k=if") == (200, b"4")
    assert ask(port, "/swap?k=new&v=4") == (200, b"1")


def test_several_are_written_in_one_transaction_or_none(shop: tuple[Path, int]) -> None:
    _, port = shop

    def found() -> list[bytes | None]:
        answers = [ask(port, f"/get?k={key}") for key in "xyz"]
        return [body if status == 200 else None for status, body in answers]

    assert ask(port, "/put-many?k=xyx&v=1") == (200, b"0")
    assert found() == [b"1", b"1", None]
    assert ask(port, "/put-many?k=yXzZ&v=2") == (200, b"0")
    assert found() == [None, b"2", None]
    assert ask(port, "/put-many?k=xYz-y&v=3") == (
        400,
        b"-1: entries[3]: a key has 1 to 500 bytes, and this one 0",
    )
    assert found() == [None, b"2", None]
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("POST", "/put-many?k=xyzabcdef", body=b"x" * 900_000)
    response = connection.getresponse()
    status, body = response.status, response.read()
    connection.close()
    assert status == 400
    assert re.match(rb"-2: entries\[[345]\]: the store is full: ", body)
    assert found() == [None, b"2", None]
    assert ask(port, "/put-many?k=&v=3") == (200, b"0")
    assert ask(port, "/put-many?k=XYZ") == (200, b"0")
    assert found() == [None, None, None]


def test_increments_of_all_workers_are_exact(shop: tuple[Path, int]) -> None:
    _, port = shop

    def count(_: int) -> None:
        connection = connect(port)
        for _ in range(50):
            connection.request("GET", "/increment?k=sum&by=3")
            assert connection.getresponse().read().isdigit()
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert ask(port, "/get?k=sum") == (200, b"1200")
    assert ask(port, "/increment?k=sum&by=-1300") == (200, b"-100")


def test_an_entry_expires(shop: tuple[Path, int]) -> None:
    _, port = shop
    assert ask(port, "/put?k=brief&v=1&ttl=20")[0] == 200
    assert ask(port, "/put?k=long&v=1&ttl=100000")[0] == 200
    assert ask(port, "/put?k=ever&v=1&ttl=-1")[0] == 200
    deadline = time.monotonic() + PATIENCE_S
    while ask(port, "/get?k=brief")[0] == 200:
        assert time.monotonic() < deadline
    assert (ask(port, "/get?k=long")[0], ask(port, "/get?k=ever")[0]) == (200, 200)


def test_a_prefix_is_listed_in_order(shop: tuple[Path, int]) -> None:
    _, port = shop
    for key in ("u:c", "u:a", "u:b", "v:a"):
        assert ask(port, f"/put?k={key}&v={key[-1]}")[0] == 200
    assert ask(port, "/scan?k=u:") == (200, b"u:a=a\nu:b=b\nu:c=c\n0")
    assert ask(port, "/scan?k=u:&count=2") == (200, b"u:a=a\nu:b=b\n7")
    assert ask(port, "/get?k=last") == (200, b"u:b")
    assert ask(port, "/scan?k=none") == (200, b"0")


def test_threads_use_the_store(shop: tuple[Path, int]) -> None:
    _, port = shop
    assert ask(port, "/put?k=a&v=12")[0] == 200
    with ThreadPoolExecutor(8) as pool:
        bodies = [body for _, body in pool.map(lambda _: ask(port, "/thread"), range(40))]
    assert sorted(int(body.split()[-1]) for body in bodies) == list(range(1, 41))
    assert {body.rpartition(b" ")[0] for body in bodies} == {b"1 2 12 0"}


def test_what_is_wrong_is_a_code_with_a_sentence(shop: tuple[Path, int]) -> None:
    _, port = shop
    of_entry, codes, of_name = ask(port, "/wrong")[1].decode().split("\n")
    assert of_entry == "entries[1].value is NULL, and has a length"
    assert codes == "-1 -1 -1 -1 -1 -1 -4 -1 -1 0 -1 -1 1"
    assert of_name.startswith('"../x" is no name of a store')
    assert ask(port, f"/put?k={'k' * 501}&v=1") == (
        400,
        b"-1: a key has 1 to 500 bytes, and this one 501",
    )
    assert ask(port, "/put?k=text&v=abc")[0] == 200
    assert ask(port, "/increment?k=text") == (
        400,
        b"-3: the value is not a whole number of 64 bits",
    )


def test_a_full_store_refuses_and_serves_on(shop: tuple[Path, int]) -> None:
    _, port = shop
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    answers: list[tuple[int, bytes]] = []
    while not answers or answers[-1][0] == 200:
        connection.request("POST", f"/put?k=full{len(answers)}", body=b"x" * 500_000)
        response = connection.getresponse()
        answers.append((response.status, response.read()))
    connection.close()
    assert answers[-1][1].startswith(b"-2: the store is full: ")
    assert 2 < len(answers) < 10
    for index in range(len(answers) - 1):
        assert ask(port, f"/delete?k=full{index}") == (200, b"1")
    assert ask(port, "/put?k=room&v=1") == (200, b"0")


def test_the_metrics_have_what_all_workers_have_done(tmp_path: Path) -> None:
    server = serve(tmp_path, "--workers", "2", "--metrics", "127.0.0.1:0")
    try:
        metrics = int(server.wait_for(r"^metrics on http://127\.0\.0\.1:([0-9]+)/")[1])
        # Both lines are there by now.
        [port] = [int(it[1]) for it in map(LISTENS.search, server.seen) if it]
        for index in range(20):
            assert ask(port, f"/put?k=key{index}&v=1&ttl={1 if index < 5 else 0}")[0] == 200
            ask(port, f"/get?k=key{index}")
        for _ in range(10):
            assert ask(port, "/get?k=none")[0] == 404
        assert ask(port, "/get?k=key19")[0] == 200

        def page() -> dict[str, int]:
            lines = ask(metrics, "/metrics")[1].decode().splitlines()
            pairs = [line.split() for line in lines if '{store="shop"} ' in line]
            return {name.removesuffix('{store="shop"}'): int(value) for name, value in pairs}

        deadline = time.monotonic() + PATIENCE_S
        # A worker may send what it has put later than another one what it has got.
        wanted = {"gets": 31, "expired": 5, "puts": 20}
        wanted = {f"jissoku_store_{name}_total": count for name, count in wanted.items()}
        while not wanted.items() <= (found := page()).items():
            assert time.monotonic() < deadline, found
        assert 16 <= found["jissoku_store_hits_total"] <= 21
        assert found["jissoku_store_evictions_total"] == 0
        assert found["jissoku_store_entries"] == 15
        assert found["jissoku_store_bytes"] >= 4096
        server.reload()
        assert page()["jissoku_store_puts_total"] == 20
    finally:
        server.end()


def test_entries_outlive_a_reload_and_a_killed_server(tmp_path: Path) -> None:
    server = serve(tmp_path)
    try:
        port = port_of(server)
        assert ask(port, "/put?k=kept&v=1") == (200, b"0")
        server.reload()
        assert ask(port, "/get?k=kept") == (200, b"1")
    finally:
        server.end()
    server = serve(tmp_path)
    try:
        assert ask(port_of(server), "/get?k=kept") == (200, b"1")
    finally:
        server.end()


def test_what_a_store_returns_to_the_start_is_said_with_its_sentence(tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(
        """#include "jissoku.h"
static jsk_store *shop;
int jsk_start(const jsk_api *js, void **state) { return js->store_open("shop", &shop); }
int jsk_handle(const jsk_api *js, jsk_request *r) { return js->respond(r, 204, 0, 0); }
"""
    )
    server = start(source)
    try:
        found = server.wait_for(r"alone\.c: jsk_start has returned -4: ")
        assert 'there is no store "shop": write [store.shop] into' in found.string
        assert server.process.wait(PATIENCE_S) == 1
    finally:
        server.end()


def test_a_store_that_is_not_configured_is_a_sentence(tmp_path: Path) -> None:
    source = Path(shutil.copy(SOURCES / "stores.c", tmp_path))
    server = start(source, "--libs=-pthread")
    try:
        found = server.wait_for("^there is no store ")
        assert re.search(r'"shop": write \[store.shop\] into the configuration file', found.string)
        server.wait_for("stores.c: jsk_start has returned 1")
        assert server.process.wait(PATIENCE_S) == 1
    finally:
        server.end()
