"""What a load meets on the host of its targets: counters that are read before and after it.

The load generator reads the CPU time of targets on its own machine, at the instants at which it
starts and ends counting. What may be read a millisecond later is read here: memory, ticks and
counters of the kernel.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from jissoku.measure import conditions
from jissoku.system import background, processes
from jissoku.system.listen_queue import ListenQueue, listen_queues

# The schema of the output of `jissoku load --json`.
Report = dict[str, Any]


class ArmObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one target; None: not available on its kernel, or it runs elsewhere.

    `memory_bytes` is resident memory and that in swap when the window closed.
    """

    user_fraction: float | None = None
    migrations_per_second: float | None = None
    major_faults: int | None = None
    memory_bytes: tuple[int, int] | None = None
    listen_limit: int | None = None
    listen_drops: int | None = None


class HostObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of the host, in the terms of `MachineConditions`, and of each arm in its order."""

    arms: tuple[ArmObservation, ...]
    steal_fraction: float
    foreign_fraction: float
    major_faults: int
    tcp_segments: int | None = None
    tcp_retransmits: int | None = None
    tcp_timeouts: int | None = None
    listen_overflows: int | None = None
    kernel_cpu_ns: int | None = None
    viewer_cpu_ns: int | None = None
    target_wait_fraction: float | None = None
    softirq_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an observer has seen.

    `measured` has, for each arm, the fields of `ArmMeasurement` that the load generator could not
    read, because the target runs on another host; `conditions` those of `MachineConditions`.
    """

    host: HostObservation
    measured: tuple[Mapping[str, object], ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class WindowTimes:
    """The edges of a window by the load generator's events, in nanoseconds of CLOCK_MONOTONIC.

    The window opened after the first and closed before the second; None: there was no event.
    """

    opened_ns: int | None = None
    closed_ns: int | None = None


class Observer(Protocol):
    """Observes targets during one run of the load generator."""

    def start(self) -> None:
        """Called before the load generator starts."""

    def window_opened(self) -> None:
        """Called at most some milliseconds after the window has opened."""

    def window_closed(self) -> None:
        """Called at most some milliseconds after the window has closed."""

    def finish(self, report: Report, times: WindowTimes) -> Observation:
        """Called after the load generator has ended, with its report."""

    def network_loss(self) -> str:
        """What the network has lost since the start, as it explains a target without an answer.

        Empty if nothing, and on one host, where the target itself is the reason.
        """


@dataclass(frozen=True, slots=True)
class _Clocks:
    """Nanoseconds so far, of the kernel's own threads, of `jissoku ui`, and without a core."""

    at_ns: int
    kernel: dict[int, int]
    viewer_ns: int
    targets_waited_ns: int | None

    @classmethod
    def read(cls, targets: Sequence[int], viewer: frozenset[int]) -> "_Clocks":
        return cls(
            kernel=processes.kernel_cpu_ns(),
            at_ns=time.monotonic_ns(),
            targets_waited_ns=processes.waited_ns(targets),
            viewer_ns=background.cpu_ns(viewer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTargets:
    """What is observed of this machine.

    Attributes:
        roots: The first process of each target; None for one that is unknown.
        ports: The TCP port of each; None over a Unix socket.
        bystanders: First processes of targets that are running without load.
        cores: The cores of the targets.
    """

    roots: tuple[int | None, ...]
    ports: tuple[int | None, ...]
    bystanders: tuple[int, ...]
    cores: tuple[int, ...]


class LocalObserver:
    """Observes targets on this machine."""

    def network_loss(self) -> str:
        return ""

    def __init__(self, targets: ObservedTargets) -> None:
        """Nothing is read yet."""
        self._targets = targets
        self._opened: _Clocks | None = None
        self._closed: _Clocks | None = None
        self._memory: dict[int, tuple[int, int]] = {}

    def start(self) -> None:
        self._before, self._queues = self._snapshot(), self._listen_queues()
        self._viewers = background.viewer_pids()
        self._pids = [pid for pids in self._before.targets.values() for pid in pids]

    def window_opened(self) -> None:
        self._opened = _Clocks.read(self._pids, self._viewers)

    def window_closed(self) -> None:
        self._closed = _Clocks.read(self._pids, self._viewers)
        self.read_memory()

    def read_memory(self) -> None:
        for root, pids in self._before.targets.items():
            self._memory[root] = processes.rss_bytes(pids), processes.swap_bytes(pids)

    def finish(self, report: Report, times: WindowTimes) -> Observation:
        """The counters of this machine; report and times are for observers of another one."""
        del report, times
        return Observation(host=self.counted())

    def counted(self) -> HostObservation:
        seen = conditions.interval_change(self._before, self._snapshot(), self._targets.cores)
        queues = zip(self._queues, self._listen_queues(), strict=True)
        arms = zip(self._targets.roots, queues, strict=True)
        found = HostObservation(
            arms=tuple(self._of_arm(root or 0, seen, *both) for root, both in arms),
            steal_fraction=seen.steal_fraction,
            foreign_fraction=seen.foreign_fraction,
            major_faults=sum(seen.major_faults.values()),
            tcp_segments=seen.tcp_segments,
            tcp_retransmits=seen.tcp_retransmits,
            tcp_timeouts=seen.tcp_timeouts,
            listen_overflows=seen.listen_overflows,
            softirq_fraction=seen.softirq_fraction,
        )
        before, after = self._opened, self._closed
        if before is None or after is None:
            return found
        return msgspec.structs.replace(
            found,
            kernel_cpu_ns=processes.kernel_spent_ns(before.kernel, after.kernel),
            viewer_cpu_ns=max(0, after.viewer_ns - before.viewer_ns),
            target_wait_fraction=waited_fraction(
                before.targets_waited_ns, after.targets_waited_ns, after.at_ns - before.at_ns
            ),
        )

    def _of_arm(
        self,
        root: int,
        seen: conditions.IntervalChange,
        before: ListenQueue | None,
        after: ListenQueue | None,
    ) -> ArmObservation:
        return ArmObservation(
            user_fraction=seen.user_fractions.get(root),
            migrations_per_second=seen.migrations_per_second.get(root),
            major_faults=seen.major_faults.get(root),
            memory_bytes=self._memory.get(root),
            listen_limit=after.limit if before and after else None,
            listen_drops=max(0, after.drops - before.drops) if before and after else None,
        )

    def _snapshot(self) -> conditions.Snapshot:
        known = [root for root in self._targets.roots if root is not None]
        return conditions.snapshot(known, self._targets.bystanders)

    def _listen_queues(self) -> list[ListenQueue | None]:
        found = listen_queues()
        return [None if port is None else found.get(port) for port in self._targets.ports]


def waited_fraction(before_ns: int | None, after_ns: int | None, span_ns: int) -> float | None:
    """As a part of the window, without the time of threads that ended meanwhile."""
    if before_ns is None or after_ns is None or not span_ns:
        return None
    return max(0, after_ns - before_ns) / span_ns
