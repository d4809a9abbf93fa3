"""Load hosts of one load that have not sent the same: which one, and what it has met.

All of them send at the same rate. What they have counted is added, so that one that is slow is not
seen in the sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jissoku.model.trial import LoadHostConditions, MachineConditions
from jissoku.model.wording import percent_text, short_time

# Responses to one rate, and what is left of median latencies without the paths: farther apart, and
# by more than wake-ups take, hosts have not measured the same.
APART_MAX = 0.10
APART_NS = 100_000


def stalls(seen: MachineConditions) -> Iterator[tuple[str, int | None, float]]:
    """Of each load generator: a name, the longest time in which it did not run, and its waiting.

    Waiting is for a core, or for the host of a virtual one, divided by the window.
    """
    for number, one in enumerate(seen.load_hosts, 1):
        waited = (one.wait_fraction or 0.0) + (one.steal_fraction or 0.0)
        yield f"the load generator of {_name(number)}", one.longest_stall_ns, waited
    if not seen.load_hosts:
        waited = (seen.generator_wait_fraction or 0.0) + (seen.steal_fraction or 0.0)
        yield "the load generator", seen.longest_stall_ns, waited


@dataclass(frozen=True, slots=True, kw_only=True)
class LateHost:
    """Parts of sentences about the load host that has sent last; empty without load hosts.

    `of` follows "requests", `which` "load generator", and `late_too` what was missed.
    """

    of: str = ""
    which: str = ""
    late_too: str = ""


def late_host(seen: MachineConditions | None, late_ns: int) -> LateHost:
    """The load host that has sent this late, the latest of all.

    Of each only its latest arm is known: several may be that of one arm.
    """
    hosts = list(enumerate(seen.load_hosts if seen is not None else (), 1))
    late = [(number, one) for number, one in hosts if (one.lag_ns_p99 or -1) >= late_ns]
    if not late:
        return LateHost()
    name = _name(*(number for number, _ in late))
    waits = [one.wait_fraction for _, one in late if one.wait_fraction is not None]
    waited = f"waited {percent_text(max(waits))} of the time for a core" if waits else ""
    return LateHost(
        of=f" of {name}",
        which=f", which {waited}" if waited else "",
        late_too=f"; {name} sent late" + (f", and its load generator {waited}" if waited else ""),
    )


def differing(seen: MachineConditions) -> str:
    """What sets load hosts apart: the responses to one rate, or the median without the path."""
    asked = seen.load_hosts if seen.generator_busy_polls else ()
    few, many = _extremes([(one.requests, number) for number, one in enumerate(asked, 1)])
    if few[0] < (1 - APART_MAX) * many[0]:
        return f"{_name(few[1])} had {few[0]:,} responses, and {_name(many[1])} {many[0]:,}"
    known = [(_own_latency_ns(one), number) for number, one in enumerate(seen.load_hosts, 1)]
    fast, slow = _extremes([(ns, number) for ns, number in known if ns is not None])
    if slow[0] - fast[0] <= max(APART_NS, APART_MAX * fast[0]):
        return ""
    return (
        f"without its path the median latency of {_name(slow[1])} was {short_time(slow[0])}, and"
        f" that of {_name(fast[1])} {short_time(fast[0])}"
    )


def _own_latency_ns(host: LoadHostConditions) -> int | None:
    if host.latency_ns_p50 is None:
        return None
    return max(0, host.latency_ns_p50 - (host.path_ns or 0))


def _extremes(values: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The lowest and the highest value, each with the number of its host."""
    none = (0, 0)
    return min(values, default=none), max(values, default=none)


def _name(*numbers: int) -> str:
    return f"load host {' or '.join(map(str, numbers))}"
