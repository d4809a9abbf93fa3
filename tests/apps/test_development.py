"""`--reload` and debuggers: an application that is being written."""

import contextlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.apps.test_options import write_at_once
from tests.serving.server_process import COMMAND, PATIENCE_S, ask

pytestmark = pytest.mark.slow

SOURCE = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"mended"]
"""


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("def app(e, s:\n", "cannot import there: SyntaxError"),
        ("import nothing_of_this_name", "cannot import there: ModuleNotFoundError"),
        ("application = 1", "the module there has no attribute app"),
        ("import os; os._exit(3)", r"worker 0 did not start \(exit code 3\)"),
    ],
)
def test_a_broken_application_is_served_when_it_is_mended(
    broken: str, reason: str, tmp_path: Path
) -> None:
    source = tmp_path / "there.py"
    source.write_text(broken)
    served = serve("there:app", "--reload", "--workers", "2", directory=tmp_path)
    try:
        served.wait_for(f"^jissoku serve: {reason}")
        served.wait_for("^jissoku serve: waiting for a change below ")
        write_at_once(source, broken + "\n# still")
        served.wait_for(f"^jissoku serve: {reason}")
        served.wait_for("^jissoku serve: waiting for a change below ")
        write_at_once(source, SOURCE)
        assert ask(port_of(served)) == (200, b"mended")
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_waiting_for_a_change_is_ended_by_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("1 / 0")
    served = serve("there:app", "--reload", directory=tmp_path)
    try:
        served.wait_for("^jissoku serve: waiting for a change below ")
        served.send_signal(number)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


def test_wrong_options_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(SOURCE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*COMMAND, "there:app", "--reload", "--app-dir", str(tmp_path)]
        done = subprocess.run(
            [*command, "--listen", where],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, f"jissoku serve: {where} is already in use\n")


STREAM = """
import asyncio
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": b"event", "more_body": True})
        await asyncio.sleep(0.05)
"""


def test_a_stream_of_events_ends_with_its_code(tmp_path: Path) -> None:
    source = tmp_path / "there.py"
    source.write_text(STREAM)
    served = serve("there:app", "--reload", directory=tmp_path)
    try:
        port = port_of(served)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
            write_at_once(source, STREAM + "# changed")
            served.wait_for("^reloaded$")
            # Without the development's shorter time it would last for minutes.
            with contextlib.suppress(ConnectionResetError):
                while client.recv(4096):
                    pass
    finally:
        served.end()


DEBUGGED = """
def app(environ, start_response):
    secret = 6 * 7 * 101
    breakpoint()
    start_response("200 OK", [])
    return [b"done"]
"""


class Terminal:
    """A server whose standard streams are a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.descriptor, end = pty.openpty()
        self.process = subprocess.Popen([*COMMAND, *arguments], stdin=end, stdout=end, stderr=end)
        os.close(end)
        self.seen = b""

    def wait_for(self, pattern: bytes) -> re.Match[bytes]:
        """Waits until a pattern is shown after what was found before."""
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.descriptor], [], [], PATIENCE_S)
            assert ready, self.seen
            self.seen += os.read(self.descriptor, 4096)
        self.seen = self.seen[found.end() :]
        return found

    def write(self, line: bytes) -> None:
        os.write(self.descriptor, line + b"\n")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.descriptor)


@pytest.mark.parametrize("arguments", [[], ["--threads", "2"], ["--reload"]])
def test_a_breakpoint_is_a_prompt_in_the_terminal(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(DEBUGGED)
    terminal = Terminal(
        "there:app", "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0", *arguments
    )
    try:
        port = int(terminal.wait_for(rb"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
        answers: list[tuple[int, bytes]] = []
        client = threading.Thread(target=lambda: answers.append(ask(port)))
        client.start()
        terminal.wait_for(rb"\(Pdb\) ")
        terminal.write(b"p secret")
        terminal.wait_for(rb"4242")
        terminal.write(b"c")
        client.join(PATIENCE_S)
        assert answers == [(200, b"done")]
    finally:
        terminal.end()


@pytest.mark.endurance
def test_a_prompt_may_be_looked_at_for_longer_than_a_hang(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(DEBUGGED)
    terminal = Terminal("there:app", "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    try:
        port = int(terminal.wait_for(rb"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
        answers: list[tuple[int, bytes]] = []
        client = threading.Thread(target=lambda: answers.append(ask(port)))
        client.start()
        terminal.wait_for(rb"\(Pdb\) ")
        time.sleep(35)
        terminal.write(b"c")
        client.join(PATIENCE_S)
        assert answers == [(200, b"done")]
    finally:
        terminal.end()
