"""All processes that have to end with a target, and how they are terminated.

A target is started as the leader of a session (setsid(2)): its processes are that session and its
descendants (`process_tree`). A process that left both, as a daemon does, is identified by a mark in
its environment, or by listening on the target's address.
"""

import os
import select
import signal
from dataclasses import dataclass
from time import monotonic_ns

from jissoku.system.address import Address, listening_sockets, sockets_of
from jissoku.system.processes import all_processes, environment, process_tree

# Seconds between SIGTERM and SIGKILL, and for the kernel to remove killed processes.
STOP_LIMIT_NS = 10_000_000_000
KILL_LIMIT_NS = 2_000_000_000

# Rounds of signals, because processes may fork while others are signalled.
ROUNDS = 20


@dataclass(frozen=True, slots=True)
class ProcessSession:
    """The identity of a target's processes.

    `pid` is the leader's, of the session and of its group. No other process has the entry `mark`,
    `NAME=value`, in its environment. Processes that started before the leader do not belong to it.
    """

    pid: int
    mark: bytes
    start_ticks: int
    address: Address

    def members(self) -> set[int]:
        processes = all_processes()
        living = {
            pid
            for pid, stat in processes.items()
            if not stat.has_exited and stat.start_ticks >= self.start_ticks
        }
        sockets = listening_sockets(self.address)
        found = living & process_tree(self.pid, processes)
        found |= {pid for pid in living - found if self.mark in environment(pid)}
        return found | {pid for pid in living - found if sockets and sockets & sockets_of(pid)}

    def end(self) -> bool:
        """Ends every process; whether SIGTERM sufficed. TimeoutError: some cannot be killed."""
        if self._end_with(signal.SIGTERM, STOP_LIMIT_NS):
            return True
        if self._end_with(signal.SIGKILL, KILL_LIMIT_NS):
            return False
        left = ", ".join(map(str, sorted(self.members())))
        raise TimeoutError(f"processes {left} are left and cannot be ended")

    def _end_with(self, number: signal.Signals, limit_ns: int) -> bool:
        """Signals every member, and those that were forked meanwhile; whether none is left."""
        deadline = monotonic_ns() + limit_ns
        for _ in range(ROUNDS):
            found = self.members()
            if not found:
                return True
            if not self._signal(found, number, deadline):
                break
        return not self.members()

    def _signal(self, found: set[int], number: signal.Signals, deadline_ns: int) -> bool:
        """Sends a signal to these processes; whether all of them ended before the deadline."""
        waiting = select.poll()
        handles: list[int] = []
        left: set[int] = set()
        try:
            # The leader first: a parent whose child ends before it was signalled starts another.
            for pid in sorted(found, key=lambda pid: (pid != self.pid, pid)):
                try:
                    # A pidfd, unlike a process id, cannot be reused for another process.
                    handle = os.pidfd_open(pid)
                    handles.append(handle)
                    signal.pidfd_send_signal(handle, number)
                except ProcessLookupError:
                    continue
                waiting.register(handle, select.POLLIN)
                left.add(handle)
            while left and (rest := deadline_ns - monotonic_ns()) > 0:
                for handle, _ in waiting.poll(rest // 1_000_000 + 1):
                    left.discard(handle)
                    waiting.unregister(handle)
        finally:
            for handle in handles:
                os.close(handle)
        return not left
