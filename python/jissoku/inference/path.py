"""Whether the path from load hosts, and not a server, decided a rate or a latency.

The path is measured by handshakes of TCP, which no program of the servers' host takes part in: once
without load, and all the time during it, with the queues that the load makes in the path.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jissoku.model.trial import ArmMeasurement, LoadHostConditions, MachineConditions
from jissoku.model.wording import plural, short_time, times

# Of the median latency: a path that takes more of it than the server and all of its queues.
PATH_PART_MIN = 0.5

# A segment in a hundred thousand: each loss costs a round trip, or a timer of 0.2 s.
LOST_MAX = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The slowest of the paths: a round trip without load, during it, and the median latency."""

    idle_ns: int | None
    loaded_ns: int | None
    latency_ns: int

    @property
    def ns(self) -> int:
        return max(self.idle_ns or 0, self.loaded_ns or 0)

    @property
    def part(self) -> float:
        """Of the median latency."""
        return self.ns / self.latency_ns

    @property
    def text(self) -> str:
        """A clause, as of a warning."""
        idle = "" if self.idle_ns is None else f", {short_time(self.idle_ns)} without load"
        return (
            f"a round trip through the network took {short_time(self.ns)}{idle}, of a median"
            f" latency of {short_time(self.latency_ns)}"
        )


def slowest(seen: MachineConditions) -> Path | None:
    """That of the load host whose path has the largest part; None if none was measured."""
    known = [
        Path(idle_ns=one.path_ns, loaded_ns=one.path_ns_loaded, latency_ns=one.latency_ns_p50)
        for one in seen.load_hosts
        if one.latency_ns_p50 and (one.path_ns or one.path_ns_loaded)
    ]
    return max(known, key=lambda path: path.part, default=None)


def is_path_bound(seen: MachineConditions) -> bool:
    """Whether a request spent most of its time in the path, rather than with the server."""
    path = slowest(seen)
    return path is not None and path.part >= PATH_PART_MIN


def losses(seen: MachineConditions) -> Iterator[str]:
    """What load hosts had to send again, each with its number."""
    for number, host in enumerate(seen.load_hosts, 1):
        if text := lost_segments(host, LOST_MAX, at_least=2):
            yield f"load host {number}: {text}"


def lost_segments(
    seen: MachineConditions | LoadHostConditions, part_max: float, *, at_least: int = 1
) -> str:
    """What was sent again if that is more than a part of the segments, as a sentence; or empty."""
    lost, sent = seen.tcp_retransmits or 0, seen.tcp_segments
    if seen.tcp_timeouts:
        return f"a TCP retransmission timer expired {times(seen.tcp_timeouts)}"
    if lost < at_least or lost <= part_max * (sent or 0):
        return ""
    of = "" if sent is None else f" of {sent:,}"
    return f"{lost} TCP {plural(lost, 'segment')}{of} {plural(lost, 'was', 'were')} retransmitted"


def mostly_path(seen: MachineConditions, measurement: ArmMeasurement) -> str:
    """What an arm's latencies say of the path, if that is most of them; else empty."""
    found = slowest(seen)
    if found is None or found.ns < PATH_PART_MIN * measurement.latency_ns.p50:
        return ""
    return Path(
        idle_ns=found.idle_ns, loaded_ns=found.loaded_ns, latency_ns=measurement.latency_ns.p50
    ).text
