"""The machine's conditions during a load: differences of counters read before and after it.

Reading everything takes some milliseconds, so it is done outside the window, and the values cover
the warm-up too. They decide whether a trial is valid, and never change its results.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.system.processes import (
    PROC,
    TICK_NS,
    ProcessStat,
    all_processes,
    core_times,
    is_kernel_thread,
    process_tree,
)

# With fewer ticks the split into user and kernel time is too uncertain.
TICKS_MIN = 10

# A row of /proc/PID/task/TID/sched, which exists with CONFIG_SCHED_DEBUG.
MIGRATIONS = re.compile(r"^se\.nr_migrations\s*:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters at one instant.

    Attributes:
        steal: Ticks per core; `softirq` as well, of interrupts, which are mostly of the network.
        tcp: Counters of /proc/net/snmp and /proc/net/netstat by name.
        targets: Processes of each target, by its root.
        migrations: How often each thread has changed cores, by its process and its own number.
        own_processes: Processes of idle targets of the lab, which are not foreign.
    """

    monotonic_ns: int
    steal: Mapping[int, int]
    tcp: Mapping[str, int]
    processes: Mapping[int, ProcessStat]
    targets: Mapping[int, set[int]]
    migrations: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    own_processes: frozenset[int] = frozenset()
    softirq: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IntervalChange:
    """The difference of two snapshots, in the terms of `MachineConditions`.

    None: this kernel does not provide it. The last three are by the root of each target.
    """

    steal_fraction: float
    foreign_fraction: float
    tcp_segments: int | None
    tcp_retransmits: int | None
    tcp_timeouts: int | None
    listen_overflows: int | None
    user_fractions: Mapping[int, float | None]
    major_faults: Mapping[int, int]
    migrations_per_second: Mapping[int, float] = field(default_factory=dict)
    softirq_fraction: float = 0.0


def snapshot(roots: Iterable[int], bystanders: Iterable[int] = ()) -> Snapshot:
    """Reads everything once; `roots` are the first processes of the targets under load."""
    processes = all_processes()
    targets = {root: process_tree(root, processes) for root in roots}
    cores = core_times()
    return Snapshot(
        monotonic_ns=time.monotonic_ns(),
        steal={core: times.steal for core, times in cores.items()},
        softirq={core: times.irq + times.softirq for core, times in cores.items()},
        tcp=_tcp(),
        processes=processes,
        targets=targets,
        migrations={pid: _migrations(pid) for pids in targets.values() for pid in pids},
        own_processes=frozenset().union(*(process_tree(root, processes) for root in bystanders)),
    )


def interval_change(before: Snapshot, after: Snapshot, cores: Collection[int]) -> IntervalChange:
    """The differences, with steal, interrupts and foreign time summed over `cores`."""
    span_ns = (after.monotonic_ns - before.monotonic_ns) * len(cores)
    steal, softirq = (
        sum(now.get(core, 0) - then.get(core, 0) for core in cores)
        for then, now in ((before.steal, after.steal), (before.softirq, after.softirq))
    )
    ours = set().union(*after.targets.values())
    # Kernel threads work for the target, too, so they are not foreign.
    foreign = sum(
        stat.cpu_ticks - _stat_before(before, pid).cpu_ticks
        for pid, stat in after.processes.items()
        if pid not in ours | after.own_processes
        and stat.core in cores
        and not is_kernel_thread(pid, stat)
    )
    return IntervalChange(
        steal_fraction=steal * TICK_NS / span_ns,
        foreign_fraction=foreign * TICK_NS / span_ns,
        tcp_segments=_counted(before, after, "OutSegs"),
        tcp_retransmits=_lost_segments(before, after),
        tcp_timeouts=_counted(before, after, "TCPTimeouts"),
        listen_overflows=_counted(before, after, "ListenOverflows"),
        user_fractions={
            root: _user_fraction(before, after, pids) for root, pids in after.targets.items()
        },
        major_faults={
            root: sum(
                after.processes[pid].major_faults - _stat_before(before, pid).major_faults
                for pid in pids
            )
            for root, pids in after.targets.items()
        },
        migrations_per_second=_migrations_per_second(before, after),
        softirq_fraction=softirq * TICK_NS / span_ns,
    )


def _migrations(pid: int) -> dict[int, int]:
    found = {}
    for task in (PROC / str(pid) / "task").glob("[0-9]*"):
        with suppress(OSError):  # It ended meanwhile, or the file does not exist.
            if said := MIGRATIONS.search((task / "sched").read_text()):
                found[int(task.name)] = int(said[1])
    return found


def _migrations_per_second(before: Snapshot, after: Snapshot) -> dict[int, float]:
    """Migrations of each target, without those of threads that ended meanwhile."""
    span_s = (after.monotonic_ns - before.monotonic_ns) / 1e9
    moved = {
        root: [
            moves - before.migrations.get(pid, {}).get(thread, 0)
            for pid in pids
            for thread, moves in after.migrations.get(pid, {}).items()
        ]
        for root, pids in after.targets.items()
    }
    return {root: sum(moves) / span_s for root, moves in moved.items() if moves}


def _stat_before(before: Snapshot, pid: int) -> ProcessStat:
    """A process's counters; a new process starts at zero."""
    return before.processes.get(pid, ProcessStat())


def _counted(before: Snapshot, after: Snapshot, name: str) -> int | None:
    if name not in before.tcp or name not in after.tcp:
        return None
    return after.tcp[name] - before.tcp[name]


def _lost_segments(before: Snapshot, after: Snapshot) -> int | None:
    """Retransmitted segments, without spurious retransmissions.

    The receiver reports those that had arrived (DSACK, RFC 2883): loopback delivers large answers
    out of order when several cores process them, and a core that is stalled for milliseconds makes
    the sender send a tail loss probe (RFC 8985, section 7). Both ends are on this machine, so the
    reports are counted where they are sent: a sender does not count all that it receives. On a
    connection that has ended none is sent; there the probe repaired no loss.
    """
    again, received, old, out_of_order, probes, repaired = (
        _counted(before, after, name)
        for name in (
            "RetransSegs",
            "TCPDSACKRecvSegs",
            "TCPDSACKOldSent",
            "TCPDSACKOfoSent",
            "TCPLossProbes",
            "TCPLossProbeRecovery",
        )
    )
    if again is None:
        return None
    sent = (old or 0) + (out_of_order or 0)
    # A probe may be reported by DSACK, too. The overlap is unknown, so the counts are not added.
    return max(0, again - max(received or 0, sent, (probes or 0) - (repaired or 0)))


def _user_fraction(before: Snapshot, after: Snapshot, pids: Iterable[int]) -> float | None:
    user = system = 0
    for pid in pids:
        start, end = _stat_before(before, pid), after.processes[pid]
        user += end.user_ticks - start.user_ticks
        system += end.system_ticks - start.system_ticks
    return user / (user + system) if user + system >= TICKS_MIN else None


def expired_timers() -> int:
    """Expirations of TCP's retransmission timer on this machine since its start.

    Without those of attempts to connect, which a server whose queue is full does not answer.
    """
    found = _tcp()
    return found.get("TCPTimeouts", 0) - found.get("TCPSynRetrans", 0)


def _tcp() -> dict[str, int]:
    found: dict[str, int] = {}
    for name in ("/proc/net/snmp", "/proc/net/netstat"):
        try:
            lines = Path(name).read_text().splitlines()
        except OSError:
            continue
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            if names.startswith(("Tcp:", "TcpExt:")):
                pairs = zip(names.split()[1:], values.split()[1:], strict=True)
                found.update((key, int(value)) for key, value in pairs)
    return found
