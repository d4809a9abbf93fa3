"""The input of verdicts: from valid trials to one logarithm of a ratio per block.

A pair's ratio comes from time-sliced trials (beside other programs from their calm rotations),
from paired trials, or from trials of each arm alone; nothing is mixed within a pair. What ran
beside the trials is a condition of the result.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jissoku.inference.checks import STEAL_BUSY_MIN, STEP_NS
from jissoku.inference.estimate import Looks
from jissoku.model import (
    FULL_LOAD,
    ArmMeasurement,
    Condition,
    EvidenceSource,
    Load,
    LoadLevel,
    MachineConditions,
    Method,
    Metric,
    Run,
    TimeSlice,
    Trial,
    TrialKind,
    Verdict,
)
from jissoku.model.updated import updated

# Beside other programs a ratio is drawn towards 1: a core that is in use wakes cheaply, and late
# wake-ups answer several requests at once. Order and sign were right in every run that was compared
# with one on a quiet core; so the result stands, and names its condition.

# Up to the first share two thirds of the kept records were measured, which are called quiet; a
# single busy program takes half of a core from a server that is as busy, and more from others.
SHARED_MIN = 0.05
BUSY_MIN = 0.40


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The mean share of the cores' time that other programs used, and its class."""

    share: float = 0.0

    @property
    def condition(self) -> Condition:
        """Results of two classes are never compared or pooled."""
        if self.share > BUSY_MIN:
            return Condition.BUSY
        return Condition.SHARED if self.share > SHARED_MIN else Condition.QUIET


def neighbours(trials: Iterable[Trial]) -> Neighbours:
    """What ran beside these trials, of those that recorded it."""
    shares = [trial_share(trial) for trial in trials if trial.conditions is not None]
    return Neighbours(round(sum(shares) / len(shares), 3)) if shares else Neighbours()


def trial_share(trial: Trial) -> float:
    """The share of the more used side: the server's cores, or the load generator's.

    The load generator polls, so the time in which it waits for its core is what others used of it.
    """
    seen = trial.conditions
    if seen is None:
        return 0.0
    rounding = STEP_NS / trial.window_ns
    foreign = max(0.0, (seen.foreign_fraction or 0.0) - rounding)
    waited = (seen.generator_wait_fraction or 0.0) if seen.generator_busy_polls else 0.0
    return min(1.0, max(foreign, waited, _stolen(seen) - rounding))


def _stolen(seen: MachineConditions) -> float:
    """Steal time of cores that had work all the time; at wake-ups it is part of the cost."""
    busy = seen.server_cores_busy_fraction
    return (seen.steal_fraction or 0.0) if busy is not None and busy >= STEAL_BUSY_MIN else 0.0


def is_quiet(trial: Trial) -> bool:
    """Whether a trial had the cores nearly to itself."""
    return neighbours([trial]).condition is Condition.QUIET


# Calm rotations: those in which no other program delayed a target or the load generator. A rotation
# is one slice of every arm, one after the other. It is calm if no target waited for a core in its
# own slice, the load generator in none of them, and nothing else ran on the targets' cores. It is
# chosen by these alone, and never by what it cost; and as a whole, so that all arms are measured
# equally often and in the same moments.

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


@dataclass(frozen=True, slots=True)
class ValidTrials:
    """Trials in which at least one arm counts, in the order in which they ran.

    A block has one counted trial of each kind, arms, load and turn; where a record holds more, the
    first one is used.
    """

    trials: tuple[Trial, ...]

    def only(self, wanted: Callable[[Trial], bool]) -> "ValidTrials":
        """The trials for which `wanted` is true."""
        return ValidTrials(tuple(trial for trial in self.trials if wanted(trial)))

    def at(self, load: Load) -> "ValidTrials":
        return self.only(lambda trial: trial.load_rps == load.rate_rps)

    def calm(self) -> "ValidTrials":
        """The calm rotations of those time-sliced trials that have enough of them."""
        sliced = [trial for trial in self.trials if trial.kind is TrialKind.TIME_SLICED]
        return ValidTrials(tuple(part for trial in sliced if (part := calm_part(trial))))

    def with_slice_length(self, turn_ns: int | None) -> "ValidTrials":
        """Without time-sliced trials of another slice length."""
        return self.only(
            lambda trial: trial.kind is not TrialKind.TIME_SLICED or trial.slice_ns == turn_ns
        )

    def of(self, kind: TrialKind, *arms: str) -> Mapping[int, Trial]:
        """Valid trials of exactly these arms, by block."""
        return self._by_block(kind, lambda trial: set(trial.arms) == set(arms), arms)

    def paired(self, kind: TrialKind, *arms: str) -> Mapping[int, Trial]:
        """Valid trials that include all of these arms, by block."""
        return self._by_block(kind, lambda trial: set(arms) <= set(trial.arms), arms)

    def with_arm(self, kind: TrialKind, arm: str) -> list[Trial]:
        """All valid trials that include `arm`, in the order of their blocks."""
        found = [t for t in self.trials if t.kind is kind and arm in t.arms and t.is_valid_for(arm)]
        return sorted(found, key=lambda trial: (trial.block, trial.index))

    def _by_block(
        self, kind: TrialKind, wanted: Callable[[Trial], bool], arms: Iterable[str]
    ) -> Mapping[int, Trial]:
        found: dict[int, Trial] = {}
        for trial in self.trials:
            if trial.kind is kind and wanted(trial) and all(map(trial.is_valid_for, arms)):
                found.setdefault(trial.block, trial)
        return found


def valid_trials(trials: Iterable[Trial]) -> ValidTrials:
    """The valid trials; failed and rejected trials give no values."""
    ordered = sorted(trials, key=lambda trial: trial.index)
    return ValidTrials(tuple(t for t in ordered if any(map(t.is_valid_for, t.arms))))


def measurement_of(trial: Trial, arm: str) -> ArmMeasurement | None:
    return next((measurement for measurement in trial.measurements if measurement.arm == arm), None)


def log_cost(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request); None if the CPU time is unknown.

    In a time-sliced trial the target's total CPU time counts, with that used while other arms were
    under load, except CPU time that depends on time and not on requests
    (ArmMeasurement.housekeeping_cpu_ns): alone it would have had that time for requests.
    """
    measurement = measurement_of(trial, arm)
    if measurement is None or not measurement.cpu_ns or measurement.requests == 0:
        return None
    return math.log((measurement.cpu_ns - measurement.housekeeping_cpu_ns) / measurement.requests)


def log_total_cpu(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request of target, load generator and kernel threads).

    None in a trial of two arms, because kernel threads cannot be attributed to one, if the load
    generator busy-polls, and if one of the three is unavailable.
    """
    measurement, seen = measurement_of(trial, arm), trial.conditions
    if (
        measurement is None
        or seen is None
        or len(trial.measurements) > 1
        or seen.generator_busy_polls
        or not measurement.requests
    ):
        return None
    if measurement.cpu_ns is None or seen.generator_cpu_cores is None or seen.kernel_cpu_ns is None:
        return None
    together_ns = (
        measurement.cpu_ns + seen.generator_cpu_cores * measurement.duration_ns + seen.kernel_cpu_ns
    )
    return math.log(together_ns / measurement.requests) if together_ns else None


def log_ratios(trials: Mapping[int, Trial], arm: str, against: str) -> dict[int, float]:
    """ln(cost of `arm` / cost of `against`) of each trial with both costs, by block."""
    return log_differences(
        {block: log_cost(trial, arm) for block, trial in trials.items()},
        {block: log_cost(trial, against) for block, trial in trials.items()},
    )


def log_differences(
    ours: Mapping[int, float | None], theirs: Mapping[int, float | None]
) -> dict[int, float]:
    """Differences block by block; blocks that are missing on either side are skipped."""
    found = {}
    for block in sorted(ours):
        mine, other = ours[block], theirs.get(block)
        if mine is not None and other is not None:
            found[block] = mine - other
    return found


# Trials of these kinds have both arms in them: machine drift falls on both.
PAIRED_KINDS = {
    EvidenceSource.TIME_SLICED: TrialKind.TIME_SLICED,
    EvidenceSource.PAIRED: TrialKind.PAIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSamples:
    """Log ratios of one pair at one load, by block, and where they were taken from.

    Attributes:
        is_calm: Whether they are of calm rotations alone.
        others: The log ratios that were not chosen: of all rotations if these are of the calm ones,
            and the other way round.
        calm_fraction: The part of all rotations that was calm; None where that is unknown.
        looks: When they may be looked at.
    """

    logs: Mapping[int, float]
    source: EvidenceSource
    connections: int = 0
    is_calm: bool = False
    others: Mapping[int, float] = field(default_factory=dict)
    calm_fraction: float | None = None
    looks: Looks = field(default_factory=Looks)


def select_ratio_source(readings: ValidTrials, arm: str, against: str) -> RatioSamples:
    """The first source that has any blocks: time-sliced, paired, two paired, single-target.

    A run has one method, so there is no choice between sources; nothing is mixed within a pair.

    Args:
        readings: Of one load only.
    """
    for source, kind in PAIRED_KINDS.items():
        trials = readings.paired(kind, arm, against)
        logs = log_ratios(trials, arm, against)
        if logs:
            return _ratio_samples(logs, source, trials)
    return _two_paired(readings, arm, against) or fixed_rate_ratios(readings, arm, against)


def choose_rotations(
    readings: ValidTrials, calm: ValidTrials, pair: tuple[str, str], looks: Looks
) -> RatioSamples:
    """A pair's log ratios, from calm rotations alone if enough blocks for a verdict have them.

    The choice is by the waiting, before any ratio is seen, and every verdict is decided by the one
    or by the other. In a run that is looked at after every block, calm rotations may become enough
    after looks at all rotations: unless all first blocks are calm, both may be looked at, and each
    has half of the error.

    Args:
        readings: Of one load only.
        calm: Their calm rotations.
    """
    whole = updated(select_ratio_source(readings, *pair), looks=looks)
    trials = readings.paired(TrialKind.TIME_SLICED, *pair)
    if whole.source is not EvidenceSource.TIME_SLICED or not any(map(has_waits, trials.values())):
        return whole
    kept = log_ratios(calm.paired(TrialKind.TIME_SLICED, *pair), *pair)
    every = [is_calm for trial in trials.values() for is_calm in calm_rotations(trial)]
    found = updated(whole, others=kept, calm_fraction=sum(every) / len(every))
    first = sorted(whole.logs)[: looks.first]
    if looks.horizon and not set(first) <= kept.keys():
        found = updated(found, looks=updated(looks, estimates=2))
    if len(kept) < looks.first:
        return found
    return updated(found, logs=kept, others=whole.logs, is_calm=True)


def _two_paired(readings: ValidTrials, arm: str, against: str) -> RatioSamples | None:
    """Each arm against the same third one, in two paired trials of a block; their errors add up.

    Paired trials are of like arms only, so that their effect on an arm cancels here, too. The third
    arm is the one with most blocks; of several the first by name.
    """
    found: list[RatioSamples] = []
    for third in sorted({one for trial in readings.trials for one in trial.arms}):
        ours = readings.of(TrialKind.PAIRED, arm, third)
        theirs = readings.of(TrialKind.PAIRED, against, third)
        logs = log_differences(log_ratios(ours, arm, third), log_ratios(theirs, against, third))
        if logs:
            found.append(_ratio_samples(logs, EvidenceSource.TWO_PAIRED, ours))
    return max(found, key=lambda one: len(one.logs)) if found else None


def fixed_rate_ratios(readings: ValidTrials, arm: str, against: str) -> RatioSamples:
    """Each arm alone at this load, paired by block; at full load in the closed loop."""
    kind = TrialKind.FIXED_RATE if readings.of(TrialKind.FIXED_RATE, arm) else TrialKind.CLOSED_LOOP
    ours, theirs = readings.of(kind, arm), readings.of(kind, against)
    logs = log_differences(
        {block: log_cost(trial, arm) for block, trial in ours.items()},
        {block: log_cost(trial, against) for block, trial in theirs.items()},
    )
    return _ratio_samples(logs, EvidenceSource.SINGLE, ours)


def _ratio_samples(
    logs: Mapping[int, float], source: EvidenceSource, trials: Mapping[int, Trial]
) -> RatioSamples:
    first = next((trials[block] for block in logs), None)
    return RatioSamples(
        logs=logs, source=source, connections=first.workload.connections if first else 0
    )


class BlockDurations:
    """The duration of every trial of a run, with the start and the warm-up before it."""

    def __init__(self, trials: Iterable[Trial] = (), slice_ns: int | None = None) -> None:
        """All trials of a run, failed and rejected ones among them.

        Args:
            trials: In any order.
            slice_ns: Nominal length of the slices; trials in slices of another one are checks.
        """
        timed = sorted(
            (one for one in trials if one.elapsed_s is not None), key=lambda one: one.index
        )
        ends = [0.0, *(one.elapsed_s or 0.0 for one in timed)]
        self._took = [
            (trial, end - before)
            for trial, (before, end) in zip(timed, pairwise(ends), strict=True)
            if trial.slice_ns in {None, slice_ns}
        ]

    def seconds(self, kinds: Collection[TrialKind], rate_rps: int | None = None) -> float | None:
        """The duration of the trials of some kinds in the newest block that has them.

        What is decided is no longer measured, so that the newest block is the most like the next.

        Args:
            rate_rps: The newest block with a trial at this rate is meant; None: any rate.
        """
        found = [(trial, took) for trial, took in self._took if trial.kind in kinds]
        blocks = {trial.block for trial, _ in found if rate_rps in {None, trial.load_rps}}
        if not blocks:
            return None
        return sum(took for trial, took in found if trial.block == max(blocks))

    def longest_s(self, kind: TrialKind, kinds: Collection[TrialKind]) -> float | None:
        """The duration of the trials of some kinds in that block with `kind` that took longest.

        The newest one may have been cut short by the end of the run.
        """
        blocks = {trial.block for trial, _ in self._took if trial.kind is kind}
        sums = [
            sum(took for trial, took in self._took if trial.block == block and trial.kind in kinds)
            for block in blocks
        ]
        return max(sums, default=None)


# The trials that a ratio's values come from.
KINDS = {
    EvidenceSource.TIME_SLICED: TrialKind.TIME_SLICED,
    EvidenceSource.PAIRED: TrialKind.PAIRED,
    EvidenceSource.TWO_PAIRED: TrialKind.PAIRED,
    EvidenceSource.SINGLE: TrialKind.FIXED_RATE,
}


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """The input of comparisons.

    Attributes:
        excluded_arms: Arms without a verdict, each with its status and the reason.
        loads: The loads at which arms are compared, lightest first.
        observed_noise: Ratio minus one by which equal arms are shown to differ in this run.
        durations: How long its blocks took.
    """

    run: Run
    valid_trials: ValidTrials
    excluded_arms: Mapping[str, tuple[Verdict, str]]
    loads: tuple[Load, ...]
    observed_noise: Mapping[Metric, float] = field(default_factory=dict)
    durations: BlockDurations = field(default_factory=BlockDurations)
    _at: dict[Load, ValidTrials] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _calm_at: dict[Load, ValidTrials] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def main(self) -> ValidTrials:
        """Without cross-check trials.

        These are trials with slices of the other length, and in a run of paired trials all
        time-sliced trials.
        """
        if self.run.method is Method.PAIRED:
            return self.valid_trials.only(lambda trial: trial.kind is not TrialKind.TIME_SLICED)
        return self.valid_trials.with_slice_length(self.run.slice_ns)

    def at(self, load: Load) -> ValidTrials:
        """The trials at one load, by the run's method; selected once."""
        if load not in self._at:
            self._at[load] = self.main.at(load)
        return self._at[load]

    def cost_ratios(self, load: Load, arm: str, against: str) -> RatioSamples:
        """The log ratios by which the costs of two arms at one load are compared, everywhere."""
        if load not in self._calm_at:
            self._calm_at[load] = self.at(load).calm()
        return choose_rotations(self.at(load), self._calm_at[load], (arm, against), self.looks)

    @property
    def looks(self) -> Looks:
        return Looks(self.run.horizon or 0)

    def noise(self, metric: Metric) -> float:
        """The least ratio minus one that matters: a smaller one is found between equal arms.

        The noise floor of a machine is known of costs; no other metric is measured more precisely.
        """
        return max(self.run.noise_floor or 0.0, self.observed_noise.get(metric, 0.0))

    def block_s(self, source: EvidenceSource, load: Load) -> float | None:
        """How long a block of trials from this source takes where this load is measured."""
        kind = KINDS[source]
        if kind is TrialKind.FIXED_RATE and load.rate_rps is None:
            kind = TrialKind.CLOSED_LOOP
        return self.durations.seconds({kind}, load.rate_rps)

    def search_s(self) -> float | None:
        """How long a block of capacity searches takes, with what is measured on their starts."""
        kinds = {TrialKind.CAPACITY, TrialKind.CLOSED_LOOP}
        return self.durations.longest_s(TrialKind.CAPACITY, kinds)

    def neighbours_at(self, load: Load) -> Neighbours:
        """What ran beside the trials at one load."""
        return neighbours(self.at(load).trials)


def loads_of(run: Run, trials: tuple[Trial, ...]) -> tuple[Load, ...]:
    """The run's loads; of a record without any, the rates of its trials with several arms."""
    if run.loads:
        return run.loads
    paired = [t for t in trials if t.kind.is_paired] or [t for t in trials if t.kind.is_cost]
    rates = {trial.load_rps for trial in paired}
    paced = sorted(rate for rate in rates if rate is not None)
    known = tuple(Load(rate_rps=rate, level=LoadLevel.GIVEN) for rate in paced)
    return known + ((FULL_LOAD,) if None in rates else ())
