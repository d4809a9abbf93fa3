"""The input of verdicts: from valid trials to one logarithm of a ratio per block.

A pair's ratio comes from time-sliced trials (beside other programs from their calm rotations),
from paired trials, or from trials of each arm alone; nothing is mixed within a pair. What ran
beside the trials is a condition of the result.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from jissoku.inference.checks import STEAL_BUSY_MIN, STEP_NS
from jissoku.inference.estimate import Company, Looks
from jissoku.inference.reach import Unreached, unreached, unreached_text, without
from jissoku.model import FULL_LOAD, Load, LoadLevel, Method, Run, updated
from jissoku.model.summary import ALPHA, EvidenceSource, Metric, Verdict
from jissoku.model.trial import ArmMeasurement, Condition, TimeSlice, Trial, TrialKind

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
    shares = [trial_share(trial) for trial in trials if trial.conditions is not None]
    return Neighbours(round(sum(shares) / len(shares), 3)) if shares else Neighbours()


def trial_share(trial: Trial) -> float:
    """The share of the more used side: the server's cores, or the load generator's.

    The load generator polls, so the time in which it waits for its core is what others used of it.
    Steal time counts of cores that had work all the time; at wake-ups it is part of the cost.
    """
    seen = trial.conditions
    if seen is None:
        return 0.0
    rounding = STEP_NS / trial.window_ns
    is_busy = (seen.server_cores_busy_fraction or 0.0) >= STEAL_BUSY_MIN
    stolen = (seen.steal_fraction or 0.0) - rounding if is_busy else 0.0
    foreign = (seen.foreign_fraction or 0.0) - rounding
    waited = (seen.generator_wait_fraction or 0.0) if seen.generator_busy_polls else 0.0
    return min(1.0, max(0.0, foreign, waited, stolen))


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
    return bool(trial.measurements) and all(map(_is_complete, trial.measurements))


def _is_complete(measurement: ArmMeasurement) -> bool:
    slices = measurement.slices
    used = [
        one.rotation_cpu_ns
        for one in slices
        if None not in {one.wait_ns, one.generator_wait_ns, one.rotation_cpu_ns}
    ]
    sums = sum(one or 0 for one in used)
    return (
        len(used) == len(slices) == len(measurement.slice_cpu_ns)
        and sums >= (1 - UNKNOWN_CPU_MAX) * (measurement.cpu_ns or 0) > 0
    )


def calm_rotations(trial: Trial) -> tuple[bool, ...]:
    """Which rotations of a trial are calm; empty where it is unknown."""
    if not has_waits(trial):
        return ()
    rotations = zip(*(measurement.slices for measurement in trial.measurements), strict=False)
    return tuple(map(_is_calm, rotations))


def _is_calm(slices: Sequence[TimeSlice]) -> bool:
    for one in slices:
        waited = (one.wait_ns or 0) - WAKE_UP_NS * (one.runs or 0)
        if waited > TARGET_WAIT_MAX * one.duration_ns:
            return False
        if (one.generator_wait_ns or 0) > GENERATOR_WAIT_MAX * one.duration_ns:
            return False
    # Whether nothing else ran on the targets' cores, as far as that is known.
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
    return updated(trial, measurements=tuple(_part(one, calm) for one in trial.measurements))


def _part(measurement: ArmMeasurement, calm: Sequence[bool]) -> ArmMeasurement:
    kept = tuple(compress(measurement.slices, calm))
    return updated(
        measurement,
        requests=sum(one.requests for one in kept),
        cpu_ns=sum(one.rotation_cpu_ns or 0 for one in kept),
        duration_ns=sum(one.rotation_ns for one in kept),
        active_duration_ns=sum(one.duration_ns for one in kept),
        slice_cpu_ns=tuple(compress(measurement.slice_cpu_ns, calm)),
        slices=kept,
    )


@dataclass(frozen=True, slots=True)
class ValidTrials:
    """Trials in which at least one arm counts, in the order in which they ran.

    A block has one counted trial of each kind, arms, load and turn; where a record holds more, the
    first one is used. An arm is in no trial at a rate that it did not reach (`unreached`).
    """

    trials: tuple[Trial, ...]
    unreached: Unreached = field(default_factory=dict)

    def only(self, wanted: Callable[[Trial], bool]) -> "ValidTrials":
        return updated(self, trials=tuple(trial for trial in self.trials if wanted(trial)))

    def at(self, load: Load) -> "ValidTrials":
        return self.only(lambda trial: trial.load_rps == load.rate_rps)

    def calm(self) -> "ValidTrials":
        sliced = [trial for trial in self.trials if trial.kind is TrialKind.TIME_SLICED]
        return ValidTrials(tuple(part for trial in sliced if (part := calm_part(trial))))

    def with_slice_length(self, turn_ns: int | None) -> "ValidTrials":
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
    ordered = sorted(trials, key=lambda trial: trial.index)
    valid = tuple(t for t in ordered if any(map(t.is_valid_for, t.arms)))
    slow = unreached(valid)
    return ValidTrials(without(valid, slow), slow)


def measurement_of(trial: Trial, arm: str) -> ArmMeasurement | None:
    return next((one for one in trial.measurements if one.arm == arm), None)


def measured(trials: Iterable[Trial], arm: str) -> list[tuple[Trial, ArmMeasurement]]:
    return [(trial, one) for trial in trials for one in trial.measurements if one.arm == arm]


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


def block_log_costs(trials: Iterable[Trial], arm: str) -> dict[int, list[float]]:
    """By block, ascending; an arm that meets several others in a block has several costs in it."""
    found: dict[int, list[float]] = {}
    for trial in sorted(trials, key=lambda trial: trial.block):
        cost = log_cost(trial, arm)
        if cost is not None:
            found.setdefault(trial.block, []).append(cost)
    return found


def log_total_cpu(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request of target, load generator and kernel threads).

    None in a trial of two arms, because kernel threads cannot be attributed to one, if the load
    generator busy-polls, and if one of the three is unavailable.
    """
    measurement, seen = measurement_of(trial, arm), trial.conditions
    if measurement is None or seen is None or len(trial.measurements) > 1:
        return None
    used_ns, cores, kernel_ns = measurement.cpu_ns, seen.generator_cpu_cores, seen.kernel_cpu_ns
    if seen.generator_busy_polls or used_ns is None or cores is None or kernel_ns is None:
        return None
    together_ns = used_ns + cores * measurement.duration_ns + kernel_ns
    has_both = together_ns and measurement.requests
    return math.log(together_ns / measurement.requests) if has_both else None


def log_ratios(trials: Mapping[int, Trial], arm: str, against: str) -> dict[int, float]:
    """ln(cost of `arm` / cost of `against`) of each trial with both costs, by block."""
    return log_differences(_log_costs(trials, arm), _log_costs(trials, against))


def _log_costs(trials: Mapping[int, Trial], arm: str) -> dict[int, float | None]:
    return {block: log_cost(trial, arm) for block, trial in trials.items()}


def log_differences(
    ours: Mapping[int, float | None], theirs: Mapping[int, float | None]
) -> dict[int, float]:
    """Differences block by block; blocks that are missing on either side are skipped."""
    return {
        block: mine - other
        for block, mine in sorted(ours.items())
        if mine is not None and (other := theirs.get(block)) is not None
    }


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
        others: Those that were not chosen: of all rotations, or of the calm ones alone.
        calm_fraction: The part of all rotations that was calm; None where that is unknown.
        company: What the same trials say of the spread of `logs`, in time slices.
    """

    logs: Mapping[int, float]
    source: EvidenceSource
    connections: int = 0
    is_calm: bool = False
    others: Mapping[int, float] = field(default_factory=dict)
    calm_fraction: float | None = None
    looks: Looks = field(default_factory=Looks)
    company: Company | None = None

    @property
    def p_value(self) -> float:
        """Two-sided, of equal costs, at all looks so far."""
        spreads = self.looks.spreads(self.logs, self.company)
        return self.looks.p_value(self.looks.used(self.logs), spreads=spreads)


def select_ratio_source(readings: ValidTrials, arm: str, against: str) -> RatioSamples:
    """The first source that has any blocks: time-sliced, paired, two paired, single-target.

    A run has one method, so there is no choice between sources. `readings` are of one load.
    """
    for source, kind in PAIRED_KINDS.items():
        trials = readings.paired(kind, arm, against)
        logs = log_ratios(trials, arm, against)
        if logs:
            return _ratio_samples(logs, source, trials)
    return _two_paired(readings, arm, against) or fixed_rate_ratios(readings, arm, against)


def _company(trials: Mapping[int, Trial], arm: str, against: str) -> Company:
    pair = {arm, against}
    sums: dict[int, float] = {}
    others: dict[str, dict[int, float]] = {}
    for block, trial in trials.items():
        costs = {name: log_cost(trial, name) for name in trial.arms if trial.is_valid_for(name)}
        known = {name: cost for name, cost in costs.items() if cost is not None}
        if pair <= known.keys():
            sums[block] = known[arm] + known[against]
        for name in known.keys() - pair:
            others.setdefault(name, {})[block] = known[name]
    return Company(sums, tuple(others[name] for name in sorted(others)))


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
    logs = log_differences(_log_costs(ours, arm), _log_costs(theirs, against))
    return _ratio_samples(logs, EvidenceSource.SINGLE, ours)


def _ratio_samples(
    logs: Mapping[int, float], source: EvidenceSource, trials: Mapping[int, Trial]
) -> RatioSamples:
    connections = next((trials[block].workload.connections for block in logs), 0)
    return RatioSamples(logs=logs, source=source, connections=connections)


class BlockDurations:
    """The duration of every trial of a run, with the start and the warm-up before it.

    Of all its trials, failed and rejected ones among them; those in slices of another nominal
    length than `slice_ns` are checks.
    """

    def __init__(self, trials: Iterable[Trial] = (), slice_ns: int | None = None) -> None:
        self._took: list[tuple[Trial, float]] = []
        before = 0.0
        for trial in sorted(trials, key=lambda one: one.index):
            if trial.elapsed_s is not None:
                if trial.slice_ns in {None, slice_ns}:
                    self._took.append((trial, trial.elapsed_s - before))
                before = trial.elapsed_s

    def seconds(self, kinds: Collection[TrialKind], rate_rps: int | None = None) -> float | None:
        """The duration of the trials of some kinds in the newest block that has them.

        What is decided is no longer measured, so that the newest block is the most like the next.
        With a rate, the newest block that has a trial at it is meant.
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
        sums = dict.fromkeys(blocks, 0.0)
        for trial, took in self._took:
            if trial.block in sums and trial.kind in kinds:
                sums[trial.block] += took
        return max(sums.values(), default=None)


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """The input of comparisons.

    Attributes:
        loads: The loads at which arms are compared, lightest first.
        observed_noise: Ratio minus one by which equal arms are shown to differ in this run.
    """

    run: Run
    valid_trials: ValidTrials
    excluded_arms: Mapping[str, tuple[Verdict, str]]
    loads: tuple[Load, ...]
    observed_noise: Mapping[Metric, float] = field(default_factory=dict)
    durations: BlockDurations = field(default_factory=BlockDurations)
    _at: dict[Load, ValidTrials] = field(default_factory=dict, init=False, repr=False)
    _calm_at: dict[Load, ValidTrials] = field(default_factory=dict, init=False, repr=False)

    @property
    def main(self) -> ValidTrials:
        """Without cross-checks: slices of the other length, or in a paired run all slices."""
        if self.run.method is Method.PAIRED:
            return self.valid_trials.only(lambda trial: trial.kind is not TrialKind.TIME_SLICED)
        return self.valid_trials.with_slice_length(self.run.slice_ns)

    def at(self, load: Load) -> ValidTrials:
        if load not in self._at:
            self._at[load] = self.main.at(load)
        return self._at[load]

    def cost_ratios(self, load: Load, arm: str, against: str) -> RatioSamples:
        """The log ratios by which the costs of two arms at one load are compared, everywhere.

        From calm rotations alone if enough blocks for a verdict have them. The choice is by the
        waiting, before any ratio is seen.
        Where the first blocks, as many as a verdict needs, were quiet, all rotations count: with
        many arms few rotations are calm on the quietest machine.
        In a run that is looked at after every block, calm rotations may become enough after looks
        at all rotations. Unless all first blocks are calm, both may be looked at, and each has half
        of the error; so the choice may be by their p-values, too. Calm ones that do not prove a
        difference give way to all rotations where these have the smaller p-value.
        """
        looks = self.looks
        whole = updated(select_ratio_source(self.at(load), arm, against), looks=looks)
        trials = self.at(load).paired(TrialKind.TIME_SLICED, arm, against)
        is_sliced = whole.source is EvidenceSource.TIME_SLICED
        if is_sliced:
            whole = updated(whole, company=_company(trials, arm, against))
        if not is_sliced or not any(map(has_waits, trials.values())):
            return whole
        first = sorted(whole.logs)[: looks.first]
        if neighbours(trials[block] for block in first).condition is Condition.QUIET:
            return whole
        if load not in self._calm_at:
            self._calm_at[load] = self.at(load).calm()
        calm = self._calm_at[load].paired(TrialKind.TIME_SLICED, arm, against)
        kept = log_ratios(calm, arm, against)
        every = [is_calm for trial in trials.values() for is_calm in calm_rotations(trial)]
        found = updated(whole, others=kept, calm_fraction=sum(every) / len(every))
        has_both = looks.horizon > 0 and not set(first) <= kept.keys()
        if has_both:
            found = updated(found, looks=updated(looks, estimates=2))
        if len(kept) < looks.first:
            return found
        company = _company(calm, arm, against)
        alone = updated(found, logs=kept, others=whole.logs, is_calm=True, company=company)
        if not has_both or (p_value := alone.p_value) <= ALPHA / self.comparisons:
            return alone
        return found if found.p_value < p_value else alone

    @property
    def comparisons(self) -> int:
        """How many ratios of costs the run has: of each pair of arms at each load."""
        return max(1, math.comb(len(self.run.arms), 2) * len(self.loads))

    @property
    def looks(self) -> Looks:
        return Looks(self.run.horizon or 0)

    def noise(self, metric: Metric) -> float:
        """The least ratio minus one that matters: a smaller one is found between equal arms.

        The noise floor of a machine is known of costs; no other metric is measured more precisely.
        """
        return max(self.run.noise_floor or 0.0, self.observed_noise.get(metric, 0.0))

    def block_s(self, source: EvidenceSource, load: Load) -> float | None:
        kind = PAIRED_KINDS.get(source, TrialKind.PAIRED)
        if source is EvidenceSource.SINGLE:
            kind = TrialKind.CLOSED_LOOP if load.rate_rps is None else TrialKind.FIXED_RATE
        return self.durations.seconds({kind}, load.rate_rps)

    def unreached_text(self, load: Load, *arms: str) -> str:
        return unreached_text(self.valid_trials.unreached, load, *arms)


def loads_of(run: Run, trials: tuple[Trial, ...]) -> tuple[Load, ...]:
    """The run's loads; of a record without any, the rates of its trials with several arms."""
    if run.loads:
        return run.loads
    paired = [t for t in trials if t.kind.is_joint] or [t for t in trials if t.kind.is_cost]
    rates = {trial.load_rps for trial in paired}
    paced = sorted(rate for rate in rates if rate is not None)
    known = tuple(Load(rate_rps=rate, level=LoadLevel.GIVEN) for rate in paced)
    return (*known, FULL_LOAD) if None in rates else known
