"""Terminates the processes of the lab if the lab itself is killed.

SIGKILL cannot be handled, and PR_SET_PDEATHSIG (prctl(2)) reaches only direct children, not the
workers that a server forks. So a small process reads a pipe that only the lab can write to. The lab
writes each target to it, and a message when it is done; if the pipe closes without that message,
the lab was killed, and every process that it has started is ended.

The supervisor has a session of its own, so that Ctrl-C does not reach it. It sleeps except when a
target starts or stops, and then runs on the lab's cores.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic_ns

import msgspec

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


class Message(msgspec.Struct, omit_defaults=True):
    """A line of the pipe: the lab's processes, a target, the mark of one that ended, or the end.

    A target is sent before and after its start, with its own folder; the lab with its own, if it
    has one.
    """

    lab: ProcessSession | None = None
    target: ProcessSession | None = None
    folder: str = ""
    forget: bytes = b""
    done: bool = False

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


class Supervisor:
    """The lab's end of the pipe."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._mark = f"{self._owner}-{monotonic_ns()}"
        self._began = start_ticks(self._owner)
        self._watched: dict[bytes, Message] = {}
        self._scratch: Path | None = None
        self._start()
        os.environ[MARK] = self._mark
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        return self._process.pid

    def scratch(self) -> Path:
        """A folder for files of the lab, which is removed with it, also if it is killed."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="jissoku-lab-"))
            self._send(self._lab())
        return self._scratch

    def announce(self, mark: bytes, address: Address, folder: Path) -> None:
        """Registers a target that is about to be started, by the mark of its processes."""
        self.watch(ProcessSession(UNKNOWN_PID, mark, self._began, address), folder)

    def watch(self, session: ProcessSession, folder: Path) -> None:
        self._watched[session.mark] = message = Message(target=session, folder=str(folder))
        self._send(message)

    def unwatch(self, mark: bytes) -> None:
        if self._watched.pop(mark, None) is not None:
            self._send(Message(forget=mark))

    def close(self) -> None:
        """Ends the supervisor process without stopping targets."""
        # If a fork of the lab ends, the lab itself continues.
        if os.getpid() != self._owner or self._pipe.closed:
            return
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        with suppress(BrokenPipeError):
            self._pipe.write(Message(done=True).line())
        self._pipe.close()
        try:
            self._process.wait(CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        # No other program has the pipe's write end: it is closed on exec, so only a child that was
        # forked and has not called exec yet can keep the pipe open after the lab has ended. When
        # the pipe closes, every process that the lab has started carries its mark.
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jissoku.targets.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        self._pipe.write(self._lab().line())

    def _lab(self) -> Message:
        mark = f"{MARK}={self._mark}".encode()
        lab = ProcessSession(UNKNOWN_PID, mark, self._began, Address())
        return Message(lab=lab, folder="" if self._scratch is None else str(self._scratch))

    def _send(self, message: Message) -> None:
        """Sends one message; a killed supervisor is replaced by one with the same targets."""
        try:
            self._pipe.write(message.line())
        except BrokenPipeError:
            self._pipe.close()
            self._process.wait()
            self._start()
            for watched in self._watched.values():
                self._pipe.write(watched.line())
        # The lab is pinned by now, and may not have been when the supervisor was started.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(self._process.pid, os.sched_getaffinity(0))


@cache
def supervisor() -> Supervisor:
    return Supervisor()


def supervise(lines: Iterable[bytes]) -> list[str]:
    """Ends what a killed lab has left, and returns a sentence for each process that stays."""
    lab: Message | None = None
    watched: dict[bytes, Message] = {}
    for line in lines:
        message = msgspec.json.decode(line, type=Message)
        if message.done:
            return []
        if message.target is not None:
            watched[message.target.mark] = message
        lab = message if message.lab is not None else lab
        watched.pop(message.forget, None)
    # A lab that was killed before it sent its mark has started nothing.
    return [] if lab is None else list(_end_all(lab, watched.values()))


def _end_all(lab: Message, watched: Iterable[Message]) -> Iterator[str]:
    """Ends all processes with the lab's mark, such as the load generator, then each target."""
    for message in (lab, *watched):
        session = message.target or message.lab
        assert session is not None, "only what was started is watched"
        assert b"=" in session.mark, "every environment ends with an empty entry"
        try:
            session.end()
        except TimeoutError as error:
            yield str(error)
        if message.folder:
            shutil.rmtree(message.folder, ignore_errors=True)


def main() -> None:
    os.chdir("/")
    # It ends after the lab, also when both get the signal: the lab may still need it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for failure in supervise(sys.stdin.buffer):
        sys.stderr.write(f"jissoku: the lab was killed: {failure}\n")


if __name__ == "__main__":
    main()
