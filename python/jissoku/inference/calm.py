"""Calm rotations: those in which no other program delayed a target or the load generator.

A rotation is one slice of every arm, one after the other. It is calm if no target waited for a core
in its own slice, the load generator in none of them, and nothing else ran on the targets' cores. It
is chosen by these alone, and never by what it cost; and as a whole, so that all arms are measured
equally often and in the same moments.
"""

from collections.abc import Sequence

from jissoku.inference.trial_checks import STEP_NS
from jissoku.model import ArmMeasurement, TimeSlice, Trial
from jissoku.model.updated import updated

# The load generator polls: it waits only where another program has its core. On quiet cores that
# was 0.0 to 0.6 % of a slice, beside bursts mostly 5 to 50 %. It sends late then, in batches, which
# are cheaper: a request to nginx took 11 us of CPU time instead of 15.
GENERATOR_WAIT_MAX = 0.01

# The time until a woken thread runs counts as waiting, on quiet cores too: up to 22 us for each
# time that a thread got a core, and in slices beside bursts up to 76.
TARGET_WAIT_MAX = 0.01
WAKE_UP_NS = 20_000

# A thread that wakes up may get its core from another program at once, and wait for nothing, while
# it uses more: 19 us instead of 15. So the rest of the time of the targets' cores counts, too. On
# quiet cores it was 0.5 to 5 % of a rotation up to 5,000 requests/s, and 5 to 13 % at 20,000,
# since a part of the work of the kernel for each request is charged to no process; in rotations
# beside bursts it was mostly 15 to 75 %.
FOREIGN_MAX = 0.05
KERNEL_NS = 5_000

# A block has a calm estimate if this fraction of its rotations is calm: in quick mode, whose blocks
# have two or four, one of them. Fewer of many would be seldom more precise than another block.
CALM_FRACTION_MIN = 0.25

# CPU time of processes that began or ended within the window is in that of the window, and in that
# of no rotation: a target whose rotations lack more than this has no calm estimate.
UNKNOWN_CPU_MAX = 0.01


def has_waits(trial: Trial) -> bool:
    """Whether it was recorded of each slice of a trial how long it waited."""
    return bool(trial.measurements) and all(map(_is_complete, trial.measurements))


def _is_complete(measurement: ArmMeasurement) -> bool:
    known = [
        one.rotation_cpu_ns
        for one in measurement.slices
        if one.wait_ns is not None and one.generator_wait_ns is not None
    ]
    sums = sum(used for used in known if used is not None)
    return (
        bool(known)
        and len(known) == len(measurement.slices) == len(measurement.slice_cpu_ns)
        and None not in known
        and sums >= (1 - UNKNOWN_CPU_MAX) * (measurement.cpu_ns or 0) > 0
    )


def calm_rotations(trial: Trial) -> tuple[bool, ...]:
    """Which rotations of a trial are calm; empty where it is unknown."""
    if not has_waits(trial):
        return ()
    rotations = zip(*(measurement.slices for measurement in trial.measurements), strict=False)
    return tuple(
        all(map(_has_not_waited, slices)) and _has_its_cores(slices) for slices in rotations
    )


def _has_not_waited(one: TimeSlice) -> bool:
    waited = (one.wait_ns or 0) - WAKE_UP_NS * (one.runs or 0)
    generator = one.generator_wait_ns or 0
    return (
        waited <= TARGET_WAIT_MAX * one.duration_ns
        and generator <= GENERATOR_WAIT_MAX * one.duration_ns
    )


def _has_its_cores(slices: Sequence[TimeSlice]) -> bool:
    """Whether nothing else ran on the targets' cores, as far as that is known."""
    last = slices[-1]
    own_ns = STEP_NS + KERNEL_NS * sum(one.requests for one in slices)
    return (last.rotation_foreign_ns or 0) - own_ns <= FOREIGN_MAX * last.rotation_ns


def calm_part(trial: Trial) -> Trial | None:
    """A trial as if only its calm rotations had been measured; None if too few are calm.

    Of each arm it has the requests and the CPU time of those. Latencies stay those of the whole
    trial: they are not recorded by slice.
    """
    calm = calm_rotations(trial)
    if not any(calm) or sum(calm) < CALM_FRACTION_MIN * len(calm):
        return None
    parts = tuple(_part(measurement, calm) for measurement in trial.measurements)
    return updated(trial, measurements=parts)


def _part(measurement: ArmMeasurement, calm: Sequence[bool]) -> ArmMeasurement:
    kept = [one for one, is_kept in zip(measurement.slices, calm, strict=False) if is_kept]
    cpu_ns = [
        used for used, is_kept in zip(measurement.slice_cpu_ns, calm, strict=False) if is_kept
    ]
    return updated(
        measurement,
        requests=sum(one.requests for one in kept),
        cpu_ns=sum(one.rotation_cpu_ns or 0 for one in kept),
        duration_ns=sum(one.rotation_ns for one in kept),
        active_duration_ns=sum(one.duration_ns for one in kept),
        slice_cpu_ns=tuple(cpu_ns),
        slices=tuple(kept),
    )
