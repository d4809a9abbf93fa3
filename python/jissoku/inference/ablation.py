"""Which knobs are accepted: by the effect's interval, the counter and the bytes of answers."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.inference import decision
from jissoku.inference.blocks import (
    ComparisonInput,
    ValidTrials,
    loads_of,
    log_differences,
    measurement_of,
    select_ratio_source,
    valid_trials,
)
from jissoku.inference.compare import compare, excluded_arms
from jissoku.inference.decision import MINIMUM_EFFECT_OF_METRIC, Decided
from jissoku.model import (
    ArmMeasurement,
    Comparison,
    CounterReadings,
    Decision,
    Direction,
    Estimate,
    EvidenceSource,
    Knob,
    KnobResult,
    Metric,
    Run,
    Trial,
    TrialKind,
    Verdict,
    VerifiedResponse,
    more_blocks,
)
from jissoku.model.updated import updated

# Cores that the target's processes kept busy.
CORES = "cores"

# How often a second its threads changed cores.
MIGRATIONS = "migrations"

# Microseconds of its CPU time outside the kernel, per request.
USER_US = "user_us"

COUNTERS = frozenset({CORES, MIGRATIONS, USER_US})


def trial_counters(trials: Sequence[Trial], kind: TrialKind, arm: str) -> dict[str, float]:
    """Medians over the valid trials of one kind; unavailable counters are omitted."""
    found: dict[str, list[float]] = {name: [] for name in COUNTERS}
    for trial in valid_trials(trials).with_arm(kind, arm):
        measurement = measurement_of(trial, arm)
        if measurement is not None:
            for name, value in _of(measurement).items():
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items() if values}


def _of(measurement: ArmMeasurement) -> dict[str, float]:
    found = {}
    if measurement.cpu_ns is not None:
        found[CORES] = measurement.cpu_ns / measurement.duration_ns
        if measurement.cpu_user_fraction is not None and measurement.requests:
            found[USER_US] = (
                measurement.cpu_ns * measurement.cpu_user_fraction / measurement.requests / 1e3
            )
    if measurement.migrations_per_second is not None:
        found[MIGRATIONS] = measurement.migrations_per_second
    return found


# With a server this many times as expensive, the load generator has at most a sixth of the cores.
GENERATOR_HEADROOM_MIN = 5.0


def rates_against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Every arm's time per answer over the baseline's; below 1 is the higher rate."""
    known, out = valid_trials(trials), excluded_arms(run, trials)
    names = [arm.name for arm in run.arms if arm.name != run.baseline]
    found = decision.settle([_compared_rate(known, name, run, out) for name in names])
    return {one.arm: one for one in found}


def _compared_rate(
    known: ValidTrials, name: str, run: Run, excluded: Mapping[str, tuple[Verdict, str]]
) -> Decided:
    blank = Comparison(
        arm=name,
        against=run.baseline,
        verdict=Verdict.INCONCLUSIVE,
        metric=Metric.TIME,
        source=EvidenceSource.SINGLE,
        connections=run.workload.connections,
        minimum_effect=MINIMUM_EFFECT_OF_METRIC[Metric.TIME],
    )
    doubt = next((excluded[one] for one in (name, run.baseline) if one in excluded), None)
    if doubt is not None:
        return Decided(updated(blank, verdict=doubt[0], remarks=(doubt[1],)))
    return decision.decide(blank, log_differences(_times(known, name), _times(known, run.baseline)))


# Knobs that are judged by the rate at full load: more workers cost no less CPU per request. Servers
# and load generator share all cores here, since a machine that gives the server one core has no use
# for a second worker. Such a rate says something of the server only where the load generator's part
# of the cores is small.


def _times(known: ValidTrials, arm: str) -> Mapping[int, float]:
    """ln(seconds per answer) of each closed loop, by block."""
    found = {}
    for trial in known.with_arm(TrialKind.CLOSED_LOOP, arm):
        measurement = measurement_of(trial, arm)
        if measurement is not None and measurement.requests:
            found[trial.block] = math.log(measurement.duration_ns / measurement.requests / 1e9)
    return found


def counters(trials: Sequence[Trial], arm: str) -> CounterReadings:
    """What an arm's closed loops counted; no system calls are counted at full load."""
    return CounterReadings(
        requests=0,
        per_request=trial_counters(trials, TrialKind.CLOSED_LOOP, arm),
        syscalls_reason="it could not be seen at full load",
    )


def generator_headroom(run: Run, trials: Sequence[Trial]) -> float | None:
    """Smallest CPU time of the baseline over the load generator's; None if not available."""
    threads = min(len(run.cores.generator), run.workload.connections)
    found = []
    for trial in valid_trials(trials).with_arm(TrialKind.CLOSED_LOOP, run.baseline):
        measurement, seen = measurement_of(trial, run.baseline), trial.conditions
        if measurement is not None and measurement.cpu_ns is not None and seen is not None:
            # In older records the busiest thread is known; none of the others takes more.
            cores = seen.generator_cpu_cores
            cores = seen.generator_busy_fraction * threads if cores is None else cores
            found.append(
                measurement.cpu_ns / (cores * measurement.duration_ns) if cores else math.inf
            )
    return statistics.median(found) if found else None


def with_generator_doubt(comparison: Comparison, times: float | None) -> Comparison:
    """Takes the verdict away from a rate at full load that says nothing of the server."""
    if comparison.ratio is None or (times is not None and times >= GENERATOR_HEADROOM_MIN):
        return comparison
    reason = "the target's CPU time could not be seen"
    if times is not None:
        reason = (
            f"the target costs only {times:.1f} times as much as the load generator that shares its"
            f" cores, and {GENERATOR_HEADROOM_MIN:g} times is the least: ask for something dearer,"
            f" such as a"
            " large answer that is compressed"
        )
    return updated(comparison, verdict=Verdict.INVALID, proven=False, remarks=(reason,))


# Which of many knobs are tested further: the effect of each in a balanced design. Effects of single
# knobs are added up; what two of them do only together is mixed into them. So this leaves out, and
# never accepts: what stays is tried alone and beside the others on fresh blocks.


def effects(
    run: Run, trials: Sequence[Trial], switched: Mapping[str, Sequence[str]], knobs: Sequence[str]
) -> dict[str, Estimate] | None:
    """Each knob's factor on the cost of a request, with its 95 % interval.

    Args:
        switched: The knobs of each arm beside the baseline.
        knobs: All of them.

    Returns:
        None where too few trials count to separate the knobs.
    """
    known = ComparisonInput(run, valid_trials(trials), {}, ()).main
    rows, values = [], []
    for arm, mine in switched.items():
        for log in select_ratio_source(known, arm, run.baseline).logs.values():
            rows.append([float(knob in mine) for knob in knobs])
            values.append(log)
    freedom = len(values) - len(knobs)
    design = np.array(rows).reshape(len(rows), len(knobs))
    if freedom < 1 or np.linalg.matrix_rank(design) < len(knobs):
        return None
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ np.array(values)
    spread = math.sqrt(float(np.sum((np.array(values) - design @ found) ** 2)) / freedom)
    t = float(stats.t.ppf(0.975, freedom))
    halves = t * spread * np.sqrt(np.diag(inverse))
    return {
        knob: Estimate(
            value=math.exp(float(value)),
            low=math.exp(float(value - half)),
            high=math.exp(float(value + half)),
            blocks=len(values),
            sd_log=spread,
        )
        for knob, value, half in zip(knobs, found, halves, strict=True)
    }


def is_worth_it(effect: Estimate, minimum_effect: float) -> bool:
    """Whether a saving of at least the minimum effect is not ruled out."""
    return effect.low < 1 / (1 + minimum_effect)


# A counter has changed if it differs by this fraction of its value, and by so much per request: a
# few calls more or less in some hundred requests are due to start and stop.
COUNTER_CHANGE_FRACTION = 0.1
COUNTER_CHANGE_MIN = 0.01

# Counters of the client, which are not system calls.
CLIENT_COUNTERS = frozenset({"connections", "segments", "bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobEvidence:
    """The evidence about one knob.

    Attributes:
        alone: With it only, relative to the unchanged target.
        leave_one_out: All others, relative to all; None if it is the only one.
        same_answers: Whether every arm with it answered as the one without did.
    """

    knob: Knob
    alone: Comparison
    leave_one_out: Comparison | None
    base: CounterReadings
    switched: CounterReadings
    same_answers: bool


def against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Compares every arm with the run's baseline, corrected for the number of comparisons.

    The arms are not compared with each other, so a run of many arms stays sharp.
    """
    loads = loads_of(run, tuple(trials))[-1:]
    evidence = ComparisonInput(run, valid_trials(trials), excluded_arms(run, trials), loads)
    names = [
        arm.name for arm in run.arms if arm.name not in {run.baseline, run.floor, run.aa_control}
    ]
    asked = tuple((name, run.baseline) for name in names)
    found = {one.arm: one for one in compare(evidence, asked) if one.metric is Metric.COST}
    return {name: found.get(name, _unmeasured(name, run.baseline)) for name in names}


def _unmeasured(arm: str, against: str) -> Comparison:
    reason = "no trial of the two together counts"
    return Comparison(arm=arm, against=against, verdict=Verdict.INVALID, remarks=(reason,))


def same_answers(trials: Sequence[Trial], arms: Sequence[str]) -> bool:
    """Whether status, type and every byte of the content were the same in all of these arms."""
    seen: set[tuple[int, str, str]] = set()
    for measurement in (
        measurement
        for trial in trials
        for measurement in trial.measurements
        if measurement.arm in arms
    ):
        if measurement.response is not None:
            seen.add(_compared(measurement.response))
    return len(seen) == 1


def _compared(answer: VerifiedResponse) -> tuple[int, str, str]:
    return answer.status, answer.content_type, answer.content_sha256 or answer.body_sha256


def counter_value(counts: CounterReadings, counter: str) -> float | None:
    """A counter per request; None if it is unknown, which is not zero."""
    if counter in CLIENT_COUNTERS | COUNTERS:
        return counts.per_request.get(counter)
    if counts.syscalls_reason:
        return None
    return counts.per_request.get(counter, 0.0)


def has_changed(before: float, after: float, moves: Direction) -> bool:
    """Whether a counter changed in the predicted direction, and far enough."""
    way = before - after if moves is Direction.FALLS else after - before
    return way >= max(COUNTER_CHANGE_MIN, COUNTER_CHANGE_FRACTION * before)


def screened_out(
    knobs: Sequence[Knob],
    counts: Mapping[str, CounterReadings],
    effects: Mapping[str, Estimate] | None,
    minimum_effect: float,
) -> tuple[KnobResult, ...]:
    """The knobs that screening excludes: those that break the target or save nothing.

    Without effects, because too few paired trials are valid, only those that break the target.
    """
    found = []
    for knob in knobs:
        if not counts[knob.name].requests:
            reason = counts[knob.name].syscalls_reason
            found.append(KnobResult(knob=knob, decision=Decision.BROKEN, sentence=reason))
        elif effects is not None and not is_worth_it(effects[knob.name], minimum_effect):
            effect = effects[knob.name].text
            sentence = f"in a design of all knobs its own effect on the cost is {effect}"
            found.append(KnobResult(knob=knob, decision=Decision.SCREENED, sentence=sentence))
    return tuple(found)


def decide_knobs(found: Sequence[KnobEvidence]) -> tuple[KnobResult, ...]:
    """Decides about every knob, in the order given.

    A knob must reduce the cost alone or in addition to the others; of several that do so alone and
    have the same effect, only the best is kept.
    """
    first = [_decided(one) for one in found]
    kept = {result.knob.counter for result in first if result.decision is Decision.ACCEPTED}
    twice = [result for result in first if result.decision is Decision.REDUNDANT]
    saved: dict[str, KnobResult] = {}
    for result in sorted(twice, key=_cost_alone):
        if result.knob.counter not in kept:
            kept.add(result.knob.counter)
            saved[result.knob.name] = updated(
                result,
                decision=Decision.ACCEPTED,
                sentence="pays alone, and is kept in place of others with the same effect",
            )
    return tuple(saved.get(result.knob.name, result) for result in first)


def _cost_alone(result: KnobResult) -> float:
    ratio = result.alone.ratio if result.alone else None
    return ratio.value if ratio else 1.0


def _decided(one: KnobEvidence) -> KnobResult:
    before = counter_value(one.base, one.knob.counter)
    after = counter_value(one.switched, one.knob.counter)
    decision, sentence = _decision(one, before, after)
    return KnobResult(
        knob=one.knob,
        decision=decision,
        alone=one.alone,
        leave_one_out=one.leave_one_out,
        before=before,
        after=after,
        sentence=sentence,
    )


def _decision(one: KnobEvidence, before: float | None, after: float | None) -> tuple[Decision, str]:
    for comparison in (one.alone, one.leave_one_out):
        if comparison and comparison.verdict in _WITHOUT_FIGURE:
            return _WITHOUT_FIGURE[comparison.verdict], "; ".join(comparison.remarks)
    if not one.same_answers:
        return Decision.DIFFERENT, "the answers are not the same bytes with it and without it"
    if not _pays(one.alone, Verdict.LOWER) and not _pays_among_others(one):
        return _no_gain(one)
    return _counter_objection(one, before, after) or _among_others(one)


# A failure is the knob's fault and rejects it; invalid trials leave it undecided.
_WITHOUT_FIGURE = {Verdict.FAILED: Decision.BROKEN, Verdict.INVALID: Decision.UNDECIDED}


def _counter_objection(
    one: KnobEvidence, before: float | None, after: float | None
) -> tuple[Decision, str] | None:
    """Why the counter does not support a measured effect; None if it does."""
    counter = one.knob.counter
    if before is None or after is None:
        reason = one.base.syscalls_reason or one.switched.syscalls_reason or "it was not seen"
        return (
            Decision.COUNTER_UNAVAILABLE,
            f"an effect is there, and of {counter} nothing is known: {reason}",
        )
    if not has_changed(before, after, one.knob.direction):
        return Decision.COUNTER_UNCHANGED, (
            f"an effect is there, but {counter} {one.knob.counter_unit} went from {before:.3g} to"
            f" {after:.3g}: the counter does not explain the effect"
        )
    return None


def _among_others(one: KnobEvidence) -> tuple[Decision, str]:
    if one.leave_one_out is None or _pays_among_others(one):
        return Decision.ACCEPTED, "its effect and its counter are as predicted"
    if one.leave_one_out.verdict is Verdict.INCONCLUSIVE:
        return Decision.UNDECIDED, _more(one.leave_one_out, "pays alone; with the others undecided")
    return Decision.REDUNDANT, "pays alone, and nothing is lost when it is left out of all"


def _pays_among_others(one: KnobEvidence) -> bool:
    return one.leave_one_out is not None and _pays(one.leave_one_out, Verdict.HIGHER)


def _pays(comparison: Comparison, verdict: Verdict) -> bool:
    """Whether the interval exceeds the minimum effect, corrected for all comparisons."""
    return comparison.verdict is verdict and comparison.proven


def _no_gain(one: KnobEvidence) -> tuple[Decision, str]:
    undecided = [
        comparison
        for comparison in (one.alone, one.leave_one_out)
        if comparison is not None and comparison.verdict in {Verdict.INCONCLUSIVE, Verdict.DISPUTED}
    ]
    if one.alone in undecided:
        return Decision.UNDECIDED, _more(one.alone, "the interval holds both a gain and none")
    least = 100 * one.alone.minimum_effect
    return Decision.NO_GAIN, f"no effect above {least:g} % was shown, alone or with the others"


def _more(comparison: Comparison, sentence: str) -> str:
    if comparison.blocks_needed:
        return f"{sentence}; {more_blocks(comparison.blocks_needed)} would decide"
    return sentence


def is_confirmed(bundle: Comparison) -> bool:
    """Whether the accepted knobs together are proven on blocks that no choice was based on."""
    return _pays(bundle, Verdict.LOWER)
