"""A target started for a workload: its address, and the verification of its responses."""

import random
from pathlib import Path

import pytest

from jissoku.errors import TargetError
from jissoku.model import Transport, Workload
from jissoku.system.cores import available_cores
from jissoku.targets import launch, process
from jissoku.targets.command import from_url
from jissoku.targets.launch import Launcher, expected_response
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.process import LaunchOptions
from jissoku.targets.response import TargetResponse
from tests.targets.conftest import Starts, script

# Counts its answers, so that each is another one.
CHANGES = """
import itertools
listener = listen()
for count in itertools.count():
    connection, _ = listener.accept()
    connection.recv(65536)
    body = b"%d" % count
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    connection.close()
"""


def launcher(seed: int = 1) -> Launcher:
    return Launcher(cores=available_cores()[:1], rng=random.Random(seed))


def test_a_target_that_keeps_its_answer_is_verified(place: BuildPaths, tmp_path: Path) -> None:
    with launcher().verified(script(place, tmp_path, "serve(listen())"), Workload()) as running:
        assert running.is_alive()
        pid = running.pid
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()


def test_an_answer_that_changes_is_refused(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, CHANGES)
    with launcher().ready(prepared, Workload()) as running:
        assert running.is_alive(), "it answers, which is all that is asked of it here"
    with (
        pytest.raises(TargetError, match=r"its first answer"),
        launcher().verified(prepared, Workload()),
    ):
        pytest.fail("its second answer is not its first")


def test_a_promised_port_is_not_drawn(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, "serve(listen())")
    with launcher().start(prepared, Workload()) as first:
        promised = {first.address.port}
        with launcher().start(prepared, Workload(), promised) as second:
            assert second.address.port not in promised


def test_a_workload_over_unix_sockets_needs_a_target_that_has_them(
    place: BuildPaths, tmp_path: Path
) -> None:
    prepared = script(place, tmp_path, "serve(listen())")
    with pytest.raises(TargetError, match="cannot listen on a Unix socket"):
        launcher().start(prepared, Workload(transport=Transport.UNIX))


def test_of_a_command_the_first_answer_is_the_right_one(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, "serve(listen())")
    first = TargetResponse(status=200, reason="OK", fields=(), body=b"mine", keeps_alive=False)
    assert expected_response(prepared, Workload(), first).body == b"mine"
    missing = TargetResponse(status=404, reason="No", fields=(), body=b"", keeps_alive=False)
    with pytest.raises(TargetError, match="choose a path that exists"):
        expected_response(prepared, Workload(), missing)


SHORT_NS = 50_000_000


def test_a_target_is_ready_when_it_answers(starts: Starts) -> None:
    with starts("serve(listen())") as running:
        assert launch.wait_until_ready(running, Workload()).body == b"Hello, World!"


def test_a_target_that_never_listens_is_an_error(starts: Starts) -> None:
    with (
        starts("print('thinking', flush=True); signal.pause()") as running,
        pytest.raises(TargetError) as failed,
    ):
        launch.wait_until_ready(running, Workload(path="/x"), SHORT_NS)
    assert str(failed.value) == (
        "mine gave no good answer to GET /x within 0.05 s: connection refused"
    )


ELSEWHERE = """
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
signal.pause()
"""


def test_a_target_that_listens_elsewhere_is_named_its_port(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "SLOW_START_NS", 0)
    monkeypatch.setattr(launch, "LOOK_NS", 300_000_000)
    notes: list[str] = []
    with starts(ELSEWHERE) as running, pytest.raises(launch.ListensElsewhere) as failed:
        launch.wait_until_ready(running, Workload(), note=notes.append)
    port = failed.value.stderr.strip()
    assert f"mine listens on 127.0.0.1:{port}, and not on {running.address.authority}" in str(
        failed.value
    )
    assert f"--url mine=http://127.0.0.1:{port}/" in str(failed.value)
    assert notes == ["Waiting for mine, 15 s at most: connection refused."]


def test_a_target_that_still_starts_may_listen_elsewhere_meanwhile(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "SLOW_START_NS", 0)
    monkeypatch.setattr(launch, "IDLE_MAX", 0.0)
    code = """
other = socket.create_server(("127.0.0.1", 0))
sum(range(2_000_000))
serve(listen())
"""
    with starts(code) as running:
        assert launch.wait_until_ready(running, Workload()).is_success


def test_a_target_that_accepts_and_is_silent_is_an_error(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "REQUEST_LIMIT_S", 0.05)
    code = "kept = listen().accept(); print('here', flush=True); signal.pause()"
    with starts(code) as running, pytest.raises(TargetError) as failed:
        launch.wait_until_ready(running, Workload(), give_up=lambda: running.output_bytes() > 0)
    assert str(failed.value) == "waiting for mine was given up: timed out"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("HTTP/1.1 503 Busy\\r\\nContent-Length: 0\\r\\n\\r\\n", "it answers 503 Busy"),
        ("hello\\r\\n\\r\\n", "the response is not HTTP (BadStatusLine hello"),
    ],
    ids=["a refusal", "another protocol"],
)
def test_a_target_with_a_wrong_response_is_an_error(starts: Starts, said: str, text: str) -> None:
    code = f"""
listener = listen()
while True:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"{said}")
    connection.close()
    print("answered", flush=True)
"""
    with starts(code) as running, pytest.raises(TargetError) as failed:
        launch.wait_until_ready(running, Workload(), give_up=lambda: running.output_bytes() > 0)
    assert text in str(failed.value)


# Answers with these statuses in turn, and then with the last one for ever.
STATUSES = """
import itertools
statuses = {statuses}
listener = listen()
for status in itertools.chain(statuses, itertools.repeat(statuses[-1])):
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 %d Said\\r\\nContent-Length: 0\\r\\n\\r\\n" % status)
    connection.close()
"""


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (302, "name the path or the address that it redirects to"),
        (403, "send what it asks for, as in -H 'Authorization: ...'"),
        (404, "choose a path that exists, with --path"),
        (405, "choose a method that it allows, with -m"),
        (500, "its log says why"),
    ],
)
def test_the_same_wrong_answer_ends_the_wait(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, status: int, remedy: str
) -> None:
    monkeypatch.setattr(launch, "WRONG_LIMIT_NS", 1)
    with (
        starts(STATUSES.format(statuses=[status])) as running,
        pytest.raises(TargetError) as failed,
    ):
        launch.wait_until_ready(running, Workload(path="/x"))
    url = running.address.url("/x")
    assert str(failed.value) == f"mine: {url} answers {status} Said; {remedy}"


@pytest.mark.parametrize("statuses", [[502] * 9, [503] * 9, [504] * 9, [404, 500]])
def test_a_target_that_is_not_ready_yet_is_waited_for(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, statuses: list[int]
) -> None:
    monkeypatch.setattr(launch, "WRONG_LIMIT_NS", 1)
    with starts(STATUSES.format(statuses=[*statuses, 200])) as running:
        assert launch.wait_until_ready(running, Workload()).is_success


def test_waiting_can_be_given_up(starts: Starts) -> None:
    asked = iter([False, False, True])
    with starts("signal.pause()") as running, pytest.raises(TargetError, match="was given up"):
        launch.wait_until_ready(running, Workload(), give_up=lambda: next(asked))
    assert next(asked, None) is None


def test_an_external_server_that_refuses_connections_is_not_waited_for(
    tmp_path: Path, placement: LaunchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "REFUSED_LIMIT_NS", 0)
    theirs = from_url(f"theirs=unix:{tmp_path}/absent.sock")
    with process.start(theirs, placement) as running, pytest.raises(TargetError) as failed:
        launch.wait_until_ready(running, Workload())
    assert str(failed.value) == (
        f"theirs cannot be reached at unix:{tmp_path}/absent.sock:/: no such file or directory;"
        " start it first"
    )
