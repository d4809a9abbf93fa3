from pathlib import Path

import pytest

from jissoku.errors import TargetError
from jissoku.model import Workload
from jissoku.targets import launch, process
from jissoku.targets.command import from_url
from jissoku.targets.process import LaunchOptions
from tests.targets.conftest import Starts

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
