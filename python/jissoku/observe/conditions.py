"""What the machine did during a window: counters read at both edges, and their differences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jissoku.observe.memory import members

# /proc/stat counts in hundredths of a second, whatever the kernel's own tick is (proc(5), USER_HZ).
TICK_NS = 10_000_000
IDLE, IOWAIT, STEAL = 3, 4, 7


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters at one instant.

    Attributes:
        cores: Ticks per core, in the order of /proc/stat's columns.
        tcp: Counters of /proc/net/snmp and /proc/net/netstat by name.
        user_ticks: Per session, user and system ticks of all its processes.
    """

    cores: Mapping[int, tuple[int, ...]]
    tcp: Mapping[str, int]
    sessions: Mapping[int, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Change:
    """What happened between two snapshots; None where this kernel does not tell."""

    idle_ns: int
    steal_ns: int
    tcp_retransmits: int | None
    listen_overflows: int | None
    user_fractions: Mapping[int, float | None]
    major_faults: int


def snapshot(sessions: Iterable[int]) -> Snapshot:
    """Reads everything once; about a millisecond. `sessions` are the targets' session ids."""
    return Snapshot(
        cores=_cores(Path("/proc/stat").read_text()),
        tcp=_tcp(),
        sessions={session: _session(session) for session in sessions},
    )


def change(before: Snapshot, after: Snapshot, cores: Iterable[int]) -> Change:
    """The differences, with idle and steal summed over `cores`."""
    used = [core for core in cores if core in before.cores and core in after.cores]

    def ticks(*columns: int) -> int:
        return sum(after.cores[c][i] - before.cores[c][i] for c in used for i in columns)

    def tcp(name: str) -> int | None:
        if name not in before.tcp or name not in after.tcp:
            return None
        return after.tcp[name] - before.tcp[name]

    pairs = {key: (before.sessions[key], after.sessions[key]) for key in before.sessions}
    return Change(
        idle_ns=ticks(IDLE, IOWAIT) * TICK_NS,
        steal_ns=ticks(STEAL) * TICK_NS,
        tcp_retransmits=tcp("RetransSegs"),
        listen_overflows=tcp("ListenOverflows"),
        user_fractions={key: _user_fraction(*pair) for key, pair in pairs.items()},
        major_faults=sum(new[2] - old[2] for old, new in pairs.values()),
    )


def _user_fraction(before: tuple[int, int, int], after: tuple[int, int, int]) -> float | None:
    user, system = after[0] - before[0], after[1] - before[1]
    # With fewer ticks than this the split would be guesswork.
    return user / (user + system) if user + system >= 10 else None


def _cores(text: str) -> dict[int, tuple[int, ...]]:
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return {int(row[0][3:]): tuple(map(int, row[1:])) for row in rows if row[0] != "cpu"}


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


def _session(session: int) -> tuple[int, int, int]:
    user = system = faults = 0
    for fields in members(session).values():
        # Fields 12, 14 and 15 of proc_pid_stat(5); ours start after the command's name, at field 3.
        faults += int(fields[9])
        user += int(fields[11])
        system += int(fields[12])
    return user, system, faults
