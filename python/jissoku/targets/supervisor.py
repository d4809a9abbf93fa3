"""Terminates the processes of the lab if the lab itself is killed.

SIGKILL cannot be handled, and PR_SET_PDEATHSIG (prctl(2)) reaches only direct children, not the
workers that a server forks. So a small process reads a pipe that only the lab can write to. The lab
writes each target to it, and a message when it is done; if the pipe closes without that message,
the lab was killed, and every process that it has started is ended.

The supervisor has a session of its own, so that Ctrl-C does not reach it. It sleeps except when a
target starts or stops, and then runs on the lab's cores.
"""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic_ns
from typing import Any

from jissoku.system.address import Address
from jissoku.system.process_session import ProcessSession
from jissoku.system.processes import start_ticks

# The environment entry that all processes started by one lab inherit, except for targets whose
# environment comes from a recipe: these are registered one by one.
MARK = "JISSOKU_LAB"

# No session has this id (the kernel uses 0 and -1), so that only mark and address are compared.
UNKNOWN_PID = -2

# The supervisor ends within milliseconds on request; a stopped (SIGSTOP) one is abandoned.
CLOSE_LIMIT_S = 5.0

Message = dict[str, Any]


class Supervisor:
    """The lab's end of the pipe."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._mark = f"{self._owner}-{monotonic_ns()}"
        self._began = start_ticks(self._owner)
        self._watched: dict[bytes, Message] = {}
        self._process = self._start()
        os.environ[MARK] = self._mark
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        return self._process.pid

    def announce(self, mark: bytes, address: Address, folder: Path) -> None:
        """Registers a target that is about to be started, by the mark of its processes."""
        self.watch(ProcessSession(UNKNOWN_PID, mark, self._began, address), folder)

    def watch(self, session: ProcessSession, folder: Path) -> None:
        """Registers a running target and its folder."""
        message = {
            "pid": session.pid,
            "mark": session.mark.decode(),
            "began": session.start_ticks,
            "port": session.address.port,
            "socket": session.address.socket,
            "folder": str(folder),
        }
        self._watched[session.mark] = message
        self._send(message)

    def unwatch(self, mark: bytes) -> None:
        """Unregisters a target that has ended."""
        if self._watched.pop(mark, None) is not None:
            self._send({"forget": mark.decode()})

    def close(self) -> None:
        """Ends the supervisor process without stopping targets."""
        if os.getpid() != self._owner:
            return  # A fork of the lab ends; the lab itself continues.
        stdin = self._process.stdin
        assert stdin is not None
        if stdin.closed:
            return
        with suppress(BrokenPipeError):
            stdin.write(b'{"done": true}\n')
        stdin.close()
        try:
            self._process.wait(CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # No other program has the pipe's write end: it is closed on exec, so only a child that was
        # forked and has not called exec yet can keep the pipe open after the lab has ended. When
        # the pipe closes, every process that the lab has started carries its mark.
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jissoku.targets.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(_line({"lab": f"{MARK}={self._mark}", "began": self._began}))
        return process

    def _send(self, message: Message) -> None:
        """Sends one message; a killed supervisor is replaced by one with the same targets."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(_line(message))
        except BrokenPipeError:
            self._process.stdin.close()
            self._process.wait()
            self._process = self._start()
            assert self._process.stdin is not None
            for watched in self._watched.values():
                self._process.stdin.write(_line(watched))
        # The lab is pinned by now, and may not have been when the supervisor was started.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(self._process.pid, os.sched_getaffinity(0))


@cache
def supervisor() -> Supervisor:
    """The lab's supervisor, started on first use."""
    return Supervisor()


def supervise(lines: Iterable[bytes]) -> list[str]:
    """Reads the lab's messages until they end, and ends the processes that a killed lab has left.

    Returns:
        One sentence for each process that could not be ended.
    """
    lab: ProcessSession | None = None
    watched: dict[str, Message] = {}
    for line in lines:
        message = json.loads(line)
        if "done" in message:
            return []
        if "lab" in message:
            lab = ProcessSession(UNKNOWN_PID, message["lab"].encode(), message["began"], Address())
        elif "forget" in message:
            watched.pop(message["forget"], None)
        else:
            watched[message["mark"]] = message
    # A lab that was killed before it sent its mark has started nothing.
    return [] if lab is None else _end_all(lab, watched.values())


def _end_all(lab: ProcessSession, watched: Iterable[Message]) -> list[str]:
    """Ends all processes with the lab's mark, such as the load generator, then each target."""
    failures = []
    targets = [(_session(message), message["folder"]) for message in watched]
    for session, folder in [(lab, ""), *targets]:
        assert b"=" in session.mark, "every environment ends with an empty entry"
        try:
            session.end()
        except TimeoutError as error:
            failures.append(str(error))
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return failures


def _session(message: Message) -> ProcessSession:
    address = Address(port=message["port"], socket=message["socket"])
    return ProcessSession(message["pid"], message["mark"].encode(), message["began"], address)


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def main() -> None:
    """Runs the supervisor process."""
    os.chdir("/")
    # It ends after the lab, also when both get the signal: the lab may still need it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for failure in supervise(sys.stdin.buffer):
        sys.stderr.write(f"jissoku: the lab was killed: {failure}\n")


if __name__ == "__main__":
    main()
