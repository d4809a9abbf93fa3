"""A server started as by its user, and clients that detect every unanswered request."""

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import IO, Self

# Limit of every wait in seconds, which turns a hang into a failure.
PATIENCE_S = 60.0

COMMAND = [sys.executable, "-m", "jissoku", "serve"]
LAB_COMMAND = [*COMMAND[:-1], "lab", "serve"]


@dataclass
class Served:
    """A server, and the processes that came out of it."""

    process: subprocess.Popen[str]
    lines: "queue.Queue[str]" = field(default_factory=queue.Queue)
    seen: list[str] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listens to the streams that are pipes, each line of which is an event."""
        streams = [self.process.stdout, self.process.stderr]
        self.readers = [
            threading.Thread(target=self._read, args=[stream], daemon=True)
            for stream in streams
            if stream is not None
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self.lines.put(line.rstrip("\n"))

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Waits until the server prints a matching line that no earlier call has returned."""
        while True:
            try:
                line = self.lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                message = f"{pattern!r} was never said, but {self.seen}"
                raise AssertionError(message) from None
            self.seen.append(line)
            if found := re.search(pattern, line):
                return found

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process that serves now."""
        os.kill(self.successors[-1] if self.successors else self.process.pid, number)

    def reload(self) -> None:
        """Reloads, and waits until that is done."""
        self.send_signal(signal.SIGHUP)
        self.wait_for("^reloaded$")

    def replace(self) -> None:
        """Lets a new process take over, and waits until it has."""
        self.send_signal(signal.SIGUSR2)
        self.successors.append(int(self.wait_for("^process ([0-9]+) serves")[1]))

    def end(self) -> None:
        """Ends all remaining processes."""
        for pid in self.successors:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(PATIENCE_S)


Start = Callable[..., Served]


def spawn(*arguments: str, command: Sequence[str] = COMMAND, **variables: str) -> Served:
    """Starts `jissoku serve`, or another command, with these arguments and variables."""
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    return Served(process)


class UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self.path))


def connect(where: int | Path) -> HTTPConnection:
    """A connection to a port of this machine, or to a Unix socket."""
    if isinstance(where, Path):
        return UnixConnection(where)
    return HTTPConnection("127.0.0.1", where, timeout=PATIENCE_S)


def ask(where: int | Path, path: str = "/") -> tuple[int, bytes]:
    """Status and body of one answer on a connection of its own."""
    connection = connect(where)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Client(threading.Thread):
    """Sends requests without a pause until stopped, and stops at the first request that is lost.

    A connection that was kept alive and ends without an answer to what was sent is lost too:
    the client was not notified before.
    """

    def __init__(self, where: int | Path, method: str, *, keeps_alive: bool) -> None:
        super().__init__(daemon=True)
        self.where = where
        self.method = method
        self.keeps_alive = keeps_alive
        self.answers = 0
        self.wrong: str | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        """Counts answers."""
        try:
            while not self.stopping.is_set():
                self._use_a_connection()
        except (OSError, AssertionError, EOFError, ValueError) as error:
            self.wrong = f"{self.method} on {self.where}: {error!r} after {self.answers} answers"

    def _use_a_connection(self) -> None:
        connection = connect(self.where)
        try:
            connection.connect()
            # It must not reconnect silently.
            connection.auto_open = 0
            while not self.stopping.is_set():
                response = self._exchange(connection)
                if not self.keeps_alive or response.will_close:
                    return
        finally:
            connection.close()

    def _exchange(self, connection: HTTPConnection) -> HTTPResponse:
        body = b"x" * 1000 if self.method == "POST" else None
        headers = {} if self.keeps_alive else {"Connection": "close"}
        connection.request(self.method, "/", body=body, headers=headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, f"{response.status}: {text!r}"
        self.answers += 1
        return response

    def wait_for_an_answer(self) -> None:
        """Waits until one more request was answered, or lost."""
        before = self.answers
        while self.answers == before and self.is_alive():
            self.stopping.wait(0.001)


class Load:
    """Clients of every kind at each place."""

    def __init__(self, *places: int | Path, methods: Sequence[str] = ("GET", "POST")) -> None:
        self.clients = [
            Client(where, method, keeps_alive=keeps_alive)
            for where in places
            for method in methods
            for keeps_alive in (True, False)
        ]

    def __enter__(self) -> Self:
        """Starts them, and waits until each was answered."""
        for client in self.clients:
            client.start()
        self.wait_for_answers()
        return self

    def wait_for_answers(self) -> None:
        """Waits until every client received one more response."""
        for client in self.clients:
            client.wait_for_an_answer()

    def __exit__(self, *_: object) -> None:
        """Stops them; no client may have lost a request."""
        for client in self.clients:
            client.stopping.set()
        for client in self.clients:
            client.join(PATIENCE_S)
        assert [client.wrong for client in self.clients if client.wrong] == []
