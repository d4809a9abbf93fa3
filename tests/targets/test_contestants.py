"""Every available target serves the contract, and leaves nothing behind."""

import select
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jissoku.model import Capability, UnavailableTarget, Workload
from jissoku.targets import catalogue, contract, launch, process, response
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from tests.targets.conftest import OUTSIDE, placed, prepared_or_skipped

# A first `go build` compiles the standard library.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RECIPES = catalogue.recipes()
PATHS = {
    Capability.HELLO: ["/"],
    Capability.ANSWER_42: ["/42"],
    Capability.DELAY: ["/delay?ms=0", "/delay?ms=1"],
    Capability.FILES: [f"/files/{name}" for name in contract.SIZES],
}
ABSENT = ["/nope", "/42/", "/files/nope", "/files/absent/1k.bin"]
FOLDERS = ["/files", "/files/"]
HOSTILE = [f"/files/{dots}{OUTSIDE}" for dots in ("../", "%2e%2e/", "..%2f", "/", "./../")]

# The fields of /42, and the targets that differ, as their recipes say.
E5_FIELDS = {
    "server": "bench",
    "connection": "keep-alive",
    "content-type": "text/plain",
    "content-length": "2",
}
ADDS_A_DATE = {
    "cheroot", "fastwsgi", "granian", "granian-rsgi", "granian-wsgi", "gunicorn", "gunicorn-asgi",
    "gunicorn-threads", "jissoku-asgi", "jissoku-uwsgi", "jissoku-wsgi", "libevent",
    "libmicrohttpd", "meinheld", "minefield", "nginx-echo", "nginx-proxy", "nginx-tuned",
    "nginx-wsgi", "starlet", "starman", "uvicorn", "waitress",
}  # fmt: skip
NAMES_ITSELF = {
    "gunicorn": "gunicorn",
    "gunicorn-threads": "gunicorn",
    "meinheld": "meinheld/1.0.2",
    "minefield": "minefield/0.5.6",
    "nginx-echo": "nginx",
    "nginx-fan-out": "nginx",
    "nginx-gateway": "nginx",
    "nginx-proxy": "nginx",
    "nginx-tuned": "nginx",
    "nginx-uwsgi-gateway": "nginx",
    "nginx-wsgi": "nginx",
}
SENDS_A_FILE = {"nginx", "h2o", "lighttpd"}

# Keep a connection without a word (RFC 9112 section 9.3), or close it with or without one.
SILENT = {
    "cheroot",
    "feersum",
    "granian-wsgi",
    "jissoku-asgi",
    "jissoku-wsgi",
    "starlet",
    "waitress",
}
CLOSES = {"gunicorn", "uwsgi"}

# Start another worker for each that ends, also on SIGTERM to all of them.
RESPAWNS = {"feersum", "starman"}


@pytest.fixture(scope="module", params=list(RECIPES))
def prepared(request: pytest.FixtureRequest, place: BuildPaths) -> PreparedTarget:
    found = prepared_or_skipped(RECIPES[request.param], place)
    if isinstance(found, UnavailableTarget):
        pytest.skip(f"{found.name} is not available here: {found.reason}; {found.install_hint}")
    return found


@pytest.fixture(scope="module")
def running(prepared: PreparedTarget) -> Iterator[RunningTarget]:
    with process.start(prepared, placed()) as running:
        launch.wait_until_ready(running, Workload())
        yield running
        check_stop(prepared, running)


def check_stop(prepared: PreparedTarget, running: RunningTarget) -> None:
    assert running.stop() or prepared.name in RESPAWNS, "it had to be killed"
    with pytest.raises(ConnectionRefusedError):
        response.send_request(running.address, Workload())


@pytest.fixture
def short_stop(prepared: PreparedTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that starts new workers on SIGTERM is killed after a second, not after ten."""
    if prepared.name in RESPAWNS:
        monkeypatch.setattr("jissoku.system.process_session.STOP_LIMIT_NS", 1_000_000_000)


def test_its_version_is_reported(prepared: PreparedTarget) -> None:
    assert any(letter.isdigit() for letter in prepared.version)
    assert "\n" not in prepared.version
    assert len(prepared.binary_sha256) == 64


def test_it_answers_its_parts_byte_for_byte(
    prepared: PreparedTarget, running: RunningTarget
) -> None:
    # What is written late at the start is followed by a round without output; a log is not.
    for _ in range(5):
        said = running.output_bytes()
        for part in prepared.capabilities:
            for path in PATHS[part]:
                right = contract.expected_response(path)
                assert right is not None
                given = response.send_request(running.address, Workload(path=path))
                response.check_response(given, right)
                assert given.keeps_alive is (prepared.name not in CLOSES)
        if running.output_bytes() == said:
            return
    pytest.fail("it writes a log")


def test_it_answers_42_with_the_fields_that_are_asked_for(
    prepared: PreparedTarget, running: RunningTarget
) -> None:
    if Capability.ANSWER_42 not in prepared.capabilities:
        pytest.skip(f"{prepared.name} does not serve /42, as its recipe says")
    given = response.send_request(running.address, Workload(path="/42"))
    fields = {name.lower(): value for name, value in given.fields}
    if prepared.name in SENDS_A_FILE:
        # HTTP/1.1 keeps a connection without a word (RFC 9112 section 9.3).
        assert fields.keys() > E5_FIELDS.keys() - {"connection"}
        return
    if prepared.name in ADDS_A_DATE:
        assert fields.pop("date")
    if prepared.name == "waitress":
        assert fields.pop("via") == "waitress"
    if prepared.name in SILENT:
        fields["connection"] = "keep-alive"
    if prepared.name in CLOSES:
        assert fields["connection"] == "close"
        fields["connection"] = "keep-alive"
    # Its words are the same in any case (RFC 9110 section 7.6.1).
    fields["connection"] = fields["connection"].lower()
    assert fields == E5_FIELDS | {"server": NAMES_ITSELF.get(prepared.name, "bench")}


def test_it_answers_404_to_everything_else(
    prepared: PreparedTarget, running: RunningTarget
) -> None:
    if prepared.name in {"floor", "floor-uwsgi-gateway"}:
        pytest.skip("the floor reads no path, as its recipe says")
    for path in ABSENT:
        assert response.send_request(running.address, Workload(path=path)).status == 404, path
    for path in FOLDERS:
        # A redirect passes like a rejection; a list of files would be an answer.
        assert response.send_request(running.address, Workload(path=path)).status >= 300, path


def test_it_serves_nothing_outside_the_folder(
    prepared: PreparedTarget, running: RunningTarget
) -> None:
    if Capability.FILES not in prepared.capabilities:
        pytest.skip(f"{prepared.name} serves no files, as its recipe says")
    for path in HOSTILE:
        assert response.send_request(running.address, Workload(path=path)).status >= 300, path


def test_it_keeps_a_delayed_answer_back(
    prepared: PreparedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Capability.DELAY not in prepared.capabilities:
        pytest.skip(f"{prepared.name} cannot delay, as its recipe says")
    # Some send pending responses before they stop, even to a client that has disconnected.
    monkeypatch.setattr("jissoku.system.process_session.STOP_LIMIT_NS", 1_000_000)
    with (
        process.start(prepared, placed()) as running,
        closing(connected(running)) as waiting,
    ):
        delayed = Workload(path="/delay?ms=60000")
        waiting.sendall(response.request(running.address, delayed))
        # Other requests are served while that one waits, and it still waits afterwards.
        for _ in range(3):
            assert response.send_request(running.address, Workload()).status == 200
        readable, _, _ = select.select([waiting], [], [], 0)
        assert not readable


def connected(running: RunningTarget) -> socket.socket:
    launch.wait_until_ready(running, Workload())
    return running.address.connect(response.REQUEST_LIMIT_S)


@pytest.mark.usefixtures("short_stop")
def test_it_serves_a_unix_socket_and_leaves_nothing(prepared: PreparedTarget) -> None:
    if not prepared.listen.unix:
        pytest.skip(f"{prepared.name} knows no Unix sockets, as its recipe says")
    path = "/42" if Capability.ANSWER_42 in prepared.capabilities else "/"
    right = contract.expected_response(path)
    assert right is not None
    with process.start(prepared, placed(unix=True, workers=2)) as running:
        response.check_response(launch.wait_until_ready(running, Workload(path=path)), right)
        assert running._child is not None
        session, folder = running._child.session, running._child.folder
        assert session.members()
    assert not session.members()
    assert not Path(folder).exists()


@pytest.mark.usefixtures("short_stop")
def test_several_workers_stop_on_request_and_free_their_port(prepared: PreparedTarget) -> None:
    """With one worker it is checked at the end of the fixture `running`."""
    with process.start(prepared, placed(workers=2)) as running:
        launch.wait_until_ready(running, Workload())
        check_stop(prepared, running)
