"""Which rates arms did not reach: at such a rate an arm has no value and no verdict.

What an overloaded server uses for a request says nothing of the rate that was offered, and its
latency grows for as long as it is measured.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from jissoku.model import ACHIEVED_MIN, ArmMeasurement, Load, Trial, TrialKind, updated

# Below this a single trial is enough, if there is no other: a window is rarely disturbed that much.
CLEARLY_LESS = 0.9

# Requests at the edges of a window that may count or not.
EDGES = 2

# A time slice waits for its last response, so that a server of long and uneven response times takes
# longer for it at any rate. One that a closed loop shows to be faster than the rate by this factor
# reaches it.
HEADROOM = 0.9

# So does one that answers most requests at once and a few of them late: each slice waits for those.
# Of one that is too slow the queue grows to the end of a slice, and half of the requests wait for
# about half of what is missing from it.
TAIL_MIN = 0.75
AT_ONCE_MAX = 0.25

# Of an arm and a rate that it did not reach: the part of the requests that it answered.
Unreached = Mapping[tuple[str, int], float]


def answered(measurement: ArmMeasurement) -> float | None:
    """The part of the offered requests that an arm answered in a trial; None in a closed loop."""
    offered = measurement.rate_rps_offered
    if not offered or measurement.active_ns <= 0:
        return None
    return min(1.0, measurement.requests / (measurement.active_ns / 1e9) / offered)


def is_behind(trial: Trial, measurement: ArmMeasurement) -> bool:
    """Whether an arm answered fewer requests of a trial than were offered.

    The answers to what was sent last are still on their way at the end of a window, and a time
    slice waits for them: as long as half of the answers take does not count.
    """
    offered = measurement.rate_rps_offered
    if not offered or measurement.active_ns <= 0:
        return False
    is_sliced = trial.kind is TrialKind.TIME_SLICED
    slices = len(measurement.slice_cpu_ns) if is_sliced else 1
    waited_ns = min(slices * measurement.latency_ns.p50, measurement.active_ns // 2)
    asked = offered * (measurement.active_ns - waited_ns) / 1e9
    if measurement.requests >= min(ACHIEVED_MIN * asked, asked - EDGES):
        return False
    has_headroom = offered <= HEADROOM * (measurement.warmup_rps or 0.0)
    return not (is_sliced and (has_headroom or _has_tail(measurement)))


def _has_tail(measurement: ArmMeasurement) -> bool:
    """Whether the answers that slices waited for are few, and took as long as is missing."""
    part, slices = answered(measurement), len(measurement.slice_cpu_ns)
    if part is None or not slices:
        return False
    missing_ns = (1 - part) * measurement.active_ns / slices
    latency = measurement.latency_ns
    is_late = missing_ns <= latency.p999
    return part >= TAIL_MIN and is_late and latency.p50 <= AT_ONCE_MAX * missing_ns


def unreached(trials: Sequence[Trial], single_max: float = CLEARLY_LESS) -> Unreached:
    """The rates that arms did not reach in most trials of a kind.

    The better half of them counts: a program that takes the core at the end of a window looks like
    a server that is too slow. A single trial counts if an arm answered less than `single_max` of
    the requests.
    """
    parts: dict[tuple[str, int], dict[TrialKind, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for trial in trials:
        rate = trial.load_rps
        if rate is None or not trial.kind.is_cost:
            continue
        for one in trial.measurements:
            part = answered(one)
            if part is not None and trial.is_valid_for(one.arm):
                reached = part if is_behind(trial, one) else 1.0
                parts[one.arm, rate][trial.kind].append(reached)
    found = {}
    for key, kinds in parts.items():
        most = max(map(len, kinds.values()))
        # A window of a single trial may be disturbed, and does not contradict several of a kind.
        sure = [
            typical
            for each in kinds.values()
            if (typical := statistics.median_high(each)) < ACHIEVED_MIN
            and (len(each) > 1 or (most == 1 and typical < single_max))
        ]
        if sure:
            found[key] = min(sure)
    return found


def without(trials: Sequence[Trial], found: Unreached) -> tuple[Trial, ...]:
    """The same trials without the arms that did not reach their rate."""
    left = []
    for trial in trials:
        slow = [name for name in trial.arms if (name, trial.load_rps) in found]
        if not slow or not trial.kind.is_cost:
            left.append(trial)
        elif arms := tuple(name for name in trial.arms if name not in slow):
            measurements = tuple(one for one in trial.measurements if one.arm in arms)
            left.append(updated(trial, arms=arms, measurements=measurements))
    return tuple(left)


def unreached_text(found: Unreached, load: Load, *arms: str) -> str:
    """As in `slow did not reach 400 requests/s (answered 23.7 %)`; empty if all arms reach it."""
    rate = load.rate_rps
    parts = {name: found[name, rate] for name in arms if rate and (name, rate) in found}
    return "; ".join(
        f"{name} did not reach {rate:,} requests/s (answered {100 * part:.1f} %)"
        for name, part in parts.items()
    )
