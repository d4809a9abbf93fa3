"""Limits of the servers themselves that a run met, each with what to do about it.

They are properties of a server and its settings, and no disturbance of the machine: the same
server shows them everywhere.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jissoku.inference.blocks import measured
from jissoku.inference.texts import said
from jissoku.model import ArmMeasurement, ConnectionMode, Trial, TrialKind
from jissoku.model.wording import counted, plural

# Linux delays an acknowledgement by 40 ms (TCP_DELACK_MIN), and the timer ticks in steps of 4.
DELAYED_NS = (39_000_000, 49_000_000)

# A timer's delay is the same for most answers: nine in ten take at most this many times the median.
# A queue, or a core that others use, spreads them.
DELAYED_SPREAD_MAX = 1.3

# Answers whose time is explained to this part by the server's own work for all connections queue.
# Where the load generator was as late, its delay explains the time.
QUEUEING_MIN = 0.5

# A server that shows a limit in more than this part of its trials has it.
MOST = 0.5

# With a lower share of the cores' time a server at full load waits for something else.
IDLE_MAX = 0.5

# Beside programs that take more than this from the cores a server waits for these, too.
OTHERS_MAX = 0.1

# A lone answer that takes less than this does not wait for much.
WAIT_NS_MIN = 1_000_000

# Less memory in swap is what a program has not used since it started.
SWAP_BYTES_MIN = 1 << 20

# Fewer connections cannot show that some are not served.
CONNECTIONS_MIN = 4

Measured = Sequence[tuple[Trial, ArmMeasurement]]


@dataclass(frozen=True, slots=True)
class Limit:
    arm: str
    text: str
    remedy: str


def server_limits(trials: Sequence[Trial], arms: Sequence[str]) -> Iterator[Limit]:
    for name in arms:
        mine = measured(trials, name)
        found = {rule: one for rule in RULES if (one := rule(mine))}
        if _short_queue in found or _delayed_acknowledgements in found:
            # They make requests wait, too.
            found.pop(_few_at_a_time, None)
        yield from (Limit(name, *one) for one in found.values())


# What is seen, as the end of a sentence that begins with the server's name, and the remedy.
Found = tuple[str, str]


def _found(name: str, **values: object) -> Found:
    return said("limits", name, **values), said("remedies", name, **values)


def _short_queue(mine: Measured) -> Found | None:
    drops = sum(one.listen_drops or 0 for _, one in mine)
    if not drops:
        return None
    limit = min(one.listen_limit for _, one in mine if one.listen_limit is not None)
    return _found(
        "short-queue",
        limit=f"{limit} {plural(limit, 'connection')}",
        drops=counted(drops, "connection was", "connections were"),
        fewer=max(1, limit),
    )


def _timeouts(mine: Measured) -> Found | None:
    late = sum(one.errors.get("timeout", 0) for _, one in mine)
    return _found("timeouts", requests=counted(late, "request")) if late else None


def _delayed_acknowledgements(mine: Measured) -> Found | None:
    """Only where a connection is used again at once: after a pause the kernel acknowledges at once.

    A handler that waits as long does so always. The end of a connection is sent at once, and the
    body before it.
    """
    late = [one.latency_ns.p50 for trial, one in mine if _is_delayed(trial, one)]
    if not late:
        return None
    least = min(one.latency_ns.min for _, one in mine if one.requests)
    unless = "" if least < min(late) / 2 else ", unless it waits itself"
    return _found("delayed", ms=statistics.median(late) / 1e6, unless=unless)


def _is_delayed(trial: Trial, one: ArmMeasurement) -> bool:
    """Whether most answers took the time of a delayed acknowledgement, and not that of a queue."""
    (low, high), took = DELAYED_NS, one.latency_ns
    is_late = low <= took.p50 <= high and took.p90 <= DELAYED_SPREAD_MAX * took.p50
    is_sent_late = (one.lag_ns_p99 or 0) > QUEUEING_MIN * took.p50
    if not is_late or is_sent_late or _closes(trial, one):
        return False
    work_ns = trial.workload.connections * (one.cpu_ns or 0) / max(1, one.requests)
    return work_ns < QUEUEING_MIN * took.p50


def _closes(trial: Trial, one: ArmMeasurement) -> bool:
    return any(
        check.name == "no-keep-alive" and check.arm == one.arm for check in trial.failed_checks
    )


def _closing(mine: Measured) -> Found | None:
    kept = [
        _closes(trial, one)
        for trial, one in mine
        if trial.workload.connection_mode is ConnectionMode.KEEP_ALIVE
    ]
    return _found("closing") if kept and statistics.fmean(kept) > MOST else None


def _few_at_a_time(mine: Measured) -> Found | None:
    """How many requests it works on at a time: its closed-loop rate times a lone answer's time."""
    closed = [
        (trial, one)
        for trial, one in mine
        if trial.kind is TrialKind.CLOSED_LOOP and one.requests and one.duration_ns
    ]
    if not closed or closed[0][0].workload.connections < CONNECTIONS_MIN:
        return None
    connections = closed[0][0].workload.connections
    rate = statistics.median(one.requests / one.duration_ns for _, one in closed)
    in_flight = rate * statistics.median(one.latency_ns.mean for _, one in closed)
    if in_flight < MOST * connections:
        return _found("few-served", served=max(1, round(in_flight)), connections=connections)
    least_ns = min(one.latency_ns.p50 for _, one in mine if one.requests)
    used = statistics.median(_used(trial) for trial, _ in closed)
    at_a_time = rate * least_ns
    if used >= IDLE_MAX or least_ns < WAIT_NS_MIN or at_a_time >= MOST * connections:
        return None
    count = max(1, round(at_a_time))
    return _found("waiting", requests=f"{count} {plural(count, 'request')}", used=100 * used)


def _swapping(mine: Measured) -> Found | None:
    """Pages that are read back while a part of the memory is in swap."""
    swapped = [one for _, one in mine if (one.swap_bytes or 0) >= SWAP_BYTES_MIN]
    faults = sum(one.major_faults or 0 for one in swapped)
    if not faults:
        return None
    most = max(one.swap_bytes or 0 for one in swapped)
    return _found("swapping", mib=most / (1 << 20), pages=counted(faults, "page"))


def _used(trial: Trial) -> float:
    """The part of its cores that the server used; 1 if it is unknown, or others used them."""
    seen = trial.conditions
    if seen is None or seen.server_cores_busy_fraction is None:
        return 1.0
    others = (
        seen.foreign_fraction,
        seen.steal_fraction,
        seen.target_wait_fraction,
        seen.generator_wait_fraction,
    )
    is_beside = sum(one or 0.0 for one in others) > OTHERS_MAX
    return 1.0 if is_beside else seen.server_cores_busy_fraction


RULES: tuple[Callable[[Measured], Found | None], ...] = (
    _short_queue, _timeouts, _delayed_acknowledgements, _few_at_a_time, _closing, _swapping,
)  # fmt: skip
