"""Which processes belong to a target, and how all of them are ended.

A target is started as the leader of a session (setsid(2)), so its children are found by their
session id, whatever process group they chose. A process that made a session of its own, as a daemon
does, is known by a mark in its environment or by holding the address the target was given.
"""

import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from jissoku.targets.address import Address

PROC = Path("/proc")

# Between SIGTERM and SIGKILL, and then for the kernel to clear away what was killed.
STOP_LIMIT_NS = 3_000_000_000
KILL_LIMIT_NS = 2_000_000_000

# A process that forks while it is being killed is met again; this often, then we say so.
KILL_ROUNDS = 20

LISTEN = "0A"  # TCP state in /proc/net/tcp
EXITED_STATES = "ZX"  # states of processes that have ended


@dataclass(frozen=True, slots=True)
class ProcessSession:
    """What marks a target's processes.

    Attributes:
        pid: The leader's; also the session's id, and its group's.
        mark: An entry of the environment, `NAME=value`, that no other process has.
        start_ticks: The leader's start, in clock ticks since boot; older processes do not belong to
            it.
    """

    pid: int
    mark: bytes
    start_ticks: int
    address: Address

    def members(self) -> set[int]:
        """Finds the living processes that belong to the target."""
        found, others = set(), set()
        for pid, state, session, began in _processes():
            if state in EXITED_STATES or began < self.start_ticks:
                continue
            if session == self.pid or self.mark in _environment(pid):
                found.add(pid)
            else:
                others.add(pid)
        sockets = _listeners(self.address)
        return found | {pid for pid in others if sockets and sockets & _sockets(pid)}

    def end(self) -> bool:
        """Ends every process of the target: first asked, then killed.

        Returns:
            Whether SIGTERM sufficed.

        Raises:
            TimeoutError: Some are left; they cannot be killed, or fork faster than they die.
        """
        if self._signal(signal.SIGTERM, STOP_LIMIT_NS):
            return True
        for _ in range(KILL_ROUNDS):
            if self._signal(signal.SIGKILL, KILL_LIMIT_NS):
                return False
        left = ", ".join(map(str, sorted(self.members())))
        raise TimeoutError(f"processes {left} are left and cannot be ended")

    def _signal(self, number: signal.Signals, limit_ns: int) -> bool:
        """Sends a signal to every member; whether none is left before the limit."""
        waiting = select.poll()
        handles: dict[int, int] = {}
        try:
            for pid in self.members():
                try:
                    # A handle cannot come to mean another process, as a number can.
                    handle = os.pidfd_open(pid)
                    handles[handle] = pid
                    signal.pidfd_send_signal(handle, number)
                except ProcessLookupError:
                    continue
                waiting.register(handle, select.POLLIN)
            deadline = monotonic_ns() + limit_ns
            left = set(handles)
            while left and (rest := deadline - monotonic_ns()) > 0:
                for handle, _ in waiting.poll(rest // 1_000_000 + 1):
                    left.discard(handle)
                    waiting.unregister(handle)
        finally:
            for handle in handles:
                os.close(handle)
        return not self.members()


def start_ticks(pid: int) -> int:
    """When a process was started, in clock ticks since boot (proc_pid_stat(5), field 22)."""
    return next((ticks for _, _, _, ticks in _processes([pid])), 0)


def _processes(pids: list[int] | None = None) -> Iterator[tuple[int, str, int, int]]:
    """Process id, state, session id and start of the processes there are."""
    for pid in pids if pids is not None else _pids():
        try:
            line = (PROC / str(pid) / "stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The program's name may hold spaces and parentheses; what follows the last one does not.
        fields = line.rpartition(")")[2].split()
        yield pid, fields[0], int(fields[3]), int(fields[19])


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit()]  # noqa: PTH208


def _environment(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another process's
        return []


def _listeners(address: Address) -> set[str]:
    """The sockets that listen at an address, as /proc/PID/fd names them."""
    found: set[str] = set()
    if address.socket:
        for fields in _table("unix"):
            if fields[-1] == address.socket:
                found.add(f"socket:[{fields[6]}]")
        return found
    for table in ("tcp", "tcp6"):
        for fields in _table(table):
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == address.port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _table(name: str) -> Iterator[list[str]]:
    try:
        lines = (PROC / "net" / name).read_text().splitlines()[1:]
    except OSError:
        return
    yield from (line.split() for line in lines)


def _sockets(pid: int) -> set[str]:
    folder = PROC / str(pid) / "fd"
    found: set[str] = set()
    try:
        entries = os.listdir(folder)  # noqa: PTH208
    except OSError:  # gone, or another process's
        return found
    for entry in entries:
        try:
            found.add(str((folder / entry).readlink()))
        except OSError:
            continue
    return found
