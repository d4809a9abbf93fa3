"""Which knobs are accepted: by the effect's interval, the counter and the bytes of answers."""

import math
import statistics
from collections import defaultdict
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
    measured,
    select_ratio_source,
    valid_trials,
)
from jissoku.inference.compare import compare_costs, excluded_arms
from jissoku.inference.decision import MINIMUM_EFFECT_OF_METRIC, Decided
from jissoku.model import (
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
    found: dict[str, list[float]] = defaultdict(list)
    for _, one in measured(valid_trials(trials).with_arm(kind, arm), arm):
        if one.cpu_ns is not None:
            found[CORES].append(one.cpu_ns / one.duration_ns)
            if one.cpu_user_fraction is not None and one.requests:
                found[USER_US].append(one.cpu_ns * one.cpu_user_fraction / one.requests / 1e3)
        if one.migrations_per_second is not None:
            found[MIGRATIONS].append(one.migrations_per_second)
    return {name: statistics.median(values) for name, values in found.items()}


# Knobs that are judged by the rate at full load: more workers cost no less CPU per request. Servers
# and load generator share all cores here, since a machine that gives the server one core has no use
# for a second worker. Such a rate says something of the server only where the load generator's part
# of the cores is small: with a server this many times as expensive it has at most a sixth.
GENERATOR_HEADROOM_MIN = 5.0


def rates_against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Every arm's time per answer over the baseline's; below 1 is the higher rate."""
    known, excluded = valid_trials(trials), excluded_arms(run, trials)
    names = [arm.name for arm in run.arms if arm.name != run.baseline]
    found = decision.settle([_compared_rate(known, name, run, excluded) for name in names])
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
    for one in (name, run.baseline):
        if one in excluded:
            verdict, reason = excluded[one]
            return Decided(updated(blank, verdict=verdict, remarks=(reason,)))
    return decision.decide(blank, log_differences(_times(known, name), _times(known, run.baseline)))


def _times(known: ValidTrials, arm: str) -> Mapping[int, float]:
    """ln(seconds per answer) of each closed loop, by block."""
    return {
        trial.block: math.log(one.duration_ns / one.requests / 1e9)
        for trial, one in measured(known.with_arm(TrialKind.CLOSED_LOOP, arm), arm)
        if one.requests
    }


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
    closed = valid_trials(trials).with_arm(TrialKind.CLOSED_LOOP, run.baseline)
    found = []
    for trial, one in measured(closed, run.baseline):
        if one.cpu_ns is not None and (seen := trial.conditions) is not None:
            # In older records the busiest thread is known; none of the others takes more.
            cores = seen.generator_cpu_cores
            cores = seen.generator_busy_fraction * threads if cores is None else cores
            found.append(one.cpu_ns / (cores * one.duration_ns) if cores else math.inf)
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
            " such as a large answer that is compressed"
        )
    return updated(comparison, verdict=Verdict.INVALID, proven=False, remarks=(reason,))


# Which of many knobs are tested further: the effect of each in a balanced design. Effects of single
# knobs are added up; what two of them do only together is mixed into them. So this leaves out, and
# never accepts: what stays is tried alone and beside the others on fresh blocks.


def effects(
    run: Run, trials: Sequence[Trial], switched: Mapping[str, Sequence[str]], knobs: Sequence[str]
) -> dict[str, Estimate] | None:
    """Each knob's factor on the cost of a request; None where too few trials separate them.

    `switched` are the knobs of each arm beside the baseline.
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
    return effect.low < 1 / (1 + minimum_effect)


# A counter has changed if it differs by this fraction of its value, and by so much per request: a
# few calls more or less in some hundred requests are due to start and stop.
COUNTER_CHANGE_FRACTION = 0.1
COUNTER_CHANGE_MIN = 0.01

# Counters of the client, which are not system calls.
CLIENT_COUNTERS = frozenset({"connections", "segments", "bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobEvidence:
    """The evidence about one knob: with it only, and all others relative to all."""

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
    others = {run.baseline, run.floor, run.aa_control}
    asked = tuple((arm.name, run.baseline) for arm in run.arms if arm.name not in others)
    found = {one.arm: one for one in compare_costs(evidence, asked)}
    reason = "no trial of the two together counts"
    return {
        name: found.get(name)
        or Comparison(arm=name, against=against, verdict=Verdict.INVALID, remarks=(reason,))
        for name, against in asked
    }


def same_answers(trials: Sequence[Trial], arms: Sequence[str]) -> bool:
    """Whether status, type and every byte of the content were the same in all of these arms."""
    seen = {
        (answer.status, answer.content_type, answer.content_sha256 or answer.body_sha256)
        for trial in trials
        for measurement in trial.measurements
        if measurement.arm in arms and (answer := measurement.response) is not None
    }
    return len(seen) == 1


def counter_value(counts: CounterReadings, counter: str) -> float | None:
    """A counter per request; None if it is unknown, which is not zero."""
    if counter in CLIENT_COUNTERS | COUNTERS:
        return counts.per_request.get(counter)
    if counts.syscalls_reason:
        return None
    return counts.per_request.get(counter, 0.0)


def has_changed(before: float, after: float, moves: Direction) -> bool:
    way = before - after if moves is Direction.FALLS else after - before
    return way >= max(COUNTER_CHANGE_MIN, COUNTER_CHANGE_FRACTION * before)


def refuted(
    knobs: Sequence[Knob], counts: Mapping[str, CounterReadings], baseline: str
) -> tuple[KnobResult, ...]:
    """The knobs whose counter stays where it is: no block of a comparison can accept them.

    Counters of timed trials, such as CPU time outside the kernel, are not known yet.
    """
    found = []
    for knob in knobs:
        if counts[knob.name].requests and knob.counter not in COUNTERS:
            before = counter_value(counts[baseline], knob.counter)
            after = counter_value(counts[knob.name], knob.counter)
            if sentence := _unmoved(knob, before, after):
                found.append(
                    KnobResult(
                        knob=knob,
                        decision=Decision.COUNTER_UNCHANGED,
                        before=before,
                        after=after,
                        sentence=f"refuted without a measurement: {sentence}",
                    )
                )
    return tuple(found)


def _unmoved(knob: Knob, before: float | None, after: float | None) -> str:
    """That the counter did not move as predicted; empty if it did, or is not known."""
    if before is None or after is None or has_changed(before, after, knob.direction):
        return ""
    return f"{knob.counter} {knob.counter_unit} went from {before:.3g} to {after:.3g}"


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
    for result in sorted(
        twice, key=lambda one: one.alone.ratio.value if one.alone and one.alone.ratio else 1.0
    ):
        if result.knob.counter not in kept:
            kept.add(result.knob.counter)
            saved[result.knob.name] = updated(
                result,
                decision=Decision.ACCEPTED,
                sentence="pays alone, and is kept in place of others with the same effect",
            )
    return tuple(saved.get(result.knob.name, result) for result in first)


def _decided(one: KnobEvidence) -> KnobResult:
    before = counter_value(one.base, one.knob.counter)
    after = counter_value(one.switched, one.knob.counter)
    reached, sentence = _decision(one, before, after)
    return KnobResult(
        knob=one.knob,
        decision=reached,
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
        return _no_gain(one, _unmoved(one.knob, before, after))
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
    if unmoved := _unmoved(one.knob, before, after):
        return Decision.COUNTER_UNCHANGED, (
            f"an effect is there, but {unmoved}: the counter does not explain the effect"
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


def _no_gain(one: KnobEvidence, unmoved: str) -> tuple[Decision, str]:
    if one.alone.verdict in {Verdict.INCONCLUSIVE, Verdict.DISPUTED}:
        if unmoved:
            return Decision.COUNTER_UNCHANGED, f"no effect was shown, and {unmoved}"
        return Decision.UNDECIDED, _more(one.alone, "the interval holds both a gain and none")
    least = 100 * one.alone.minimum_effect
    return Decision.NO_GAIN, f"no effect above {least:g} % was shown, alone or with the others"


def _more(comparison: Comparison, sentence: str) -> str:
    if comparison.blocks_needed:
        return f"{sentence}; {more_blocks(comparison.blocks_needed)} would decide"
    return sentence


def is_confirmed(bundle: Comparison) -> bool:
    return _pays(bundle, Verdict.LOWER)
