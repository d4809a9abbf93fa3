"""Which knobs are accepted: by the effect's interval, the counter and the bytes of answers."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jissoku.inference import decision
from jissoku.inference.blocks import ValidTrials, log_differences, measured, valid_trials
from jissoku.inference.checks import bottleneck
from jissoku.inference.compare import compare_costs, comparison_input, excluded_arms
from jissoku.inference.decision import MINIMUM_EFFECT_OF_METRIC, Decided
from jissoku.inference.estimate import Looks
from jissoku.inference.texts import said
from jissoku.model import CoreAssignment, Run, Workload, updated
from jissoku.model.recipe import Direction, Knob
from jissoku.model.summary import (
    Bottleneck,
    Comparison,
    CounterReadings,
    Decision,
    EvidenceSource,
    KnobResult,
    Metric,
    Verdict,
    more_blocks,
)
from jissoku.model.trial import ArmMeasurement, MachineConditions, Trial, TrialKind

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

# Where both use less than this part of the cores they do not take them from each other: the server
# waits for something else.
SHARED_CORES_USED = 0.25


def rates_against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Every arm's time per answer over the baseline's; below 1 is the higher rate."""
    known, excluded = valid_trials(trials), excluded_arms(run, trials)
    names = [arm.name for arm in run.arms if arm.name != run.baseline]
    found = decision.settle([_compared_rate(known, name, run, excluded) for name in names])
    if run.load_host is not None and not run.cores.shared:
        return {one.arm: _unless_held_down(one, known) for one in found}
    headroom = generator_headroom(run, trials)
    return {one.arm: with_generator_doubt(one, headroom) for one in found}


def _unless_held_down(comparison: Comparison, known: ValidTrials) -> Comparison:
    """Takes the verdict away from rates that a load generator with cores of its own held down."""
    for name in (comparison.arm, comparison.against):
        trials = known.with_arm(TrialKind.CLOSED_LOOP, name)
        if bottleneck(one.conditions for one in trials if one.conditions) is Bottleneck.GENERATOR:
            reason = said("rates", "held-down", arm=name)
            return updated(comparison, verdict=Verdict.INVALID, proven=False, remarks=(reason,))
    return comparison


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
    logs = log_differences(_times(known, name), _times(known, run.baseline))
    return decision.decide(blank, logs, Looks(run.horizon))


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
    """Typical CPU time of the baseline over the load generator's; None if not available.

    Infinite where most of the cores are idle.
    """
    closed = valid_trials(trials).with_arm(TrialKind.CLOSED_LOOP, run.baseline)
    found = [
        times
        for trial, one in measured(closed, run.baseline)
        if (times := headroom_in(one, trial.conditions, run.cores, run.workload)) is not None
    ]
    return statistics.median(found) if found else None


def headroom_in(
    one: ArmMeasurement,
    seen: MachineConditions | None,
    cores: CoreAssignment,
    workload: Workload,
) -> float | None:
    """CPU time of an arm in a closed loop over the load generator's, as `generator_headroom`."""
    if one.cpu_ns is None or seen is None:
        return None
    # In older records the busiest thread is known; none of the others takes more.
    threads = min(len(cores.generator), workload.connections)
    taken = seen.generator_cpu_cores
    taken = seen.generator_busy_fraction * threads if taken is None else taken
    used = one.cpu_ns / one.duration_ns + taken
    if not taken or used < SHARED_CORES_USED * len(cores.server):
        return math.inf
    return one.cpu_ns / (taken * one.duration_ns)


def with_generator_doubt(comparison: Comparison, times: float | None) -> Comparison:
    """Takes the verdict away from a rate at full load that says nothing of the server."""
    if times is None and comparison.ratio is None:
        return comparison  # Nothing is measured yet.
    if times is not None and times >= GENERATOR_HEADROOM_MIN:
        return comparison
    name = "unseen" if times is None else "weak"
    reason = said("rates", name, times=times, least=GENERATOR_HEADROOM_MIN)
    return updated(comparison, verdict=Verdict.INVALID, proven=False, remarks=(reason,))


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
    evidence = comparison_input(run, trials)
    evidence = updated(evidence, loads=evidence.loads[-1:])
    others = {run.baseline, run.floor, run.aa_control}
    asked = tuple((arm.name, run.baseline) for arm in run.arms if arm.name not in others)
    found = {one.arm: one for one in compare_costs(evidence, asked)}
    reason = "no trial of the two together counts"
    return {
        name: found.get(name)
        or Comparison(arm=name, against=against, verdict=Verdict.INVALID, remarks=(reason,))
        for name, against in asked
    }


def is_settled(found: Comparison, aim: Verdict) -> bool:
    """Whether more blocks would not change what is done with a knob.

    Either something is proven, or an effect that matters in the direction of `aim` (LOWER or
    HIGHER) is excluded by the interval, which holds at all looks: a knob that surely does not pay
    needs no further word on whether it costs nothing or something. A slight gain that is proven may
    still turn out to be one that matters.
    """
    is_open = found.verdict.is_slight and found.verdict.is_lower is (aim is Verdict.LOWER)
    return _is_excluded(found, aim) or (found.is_decided and not is_open)


def _is_excluded(found: Comparison, aim: Verdict) -> bool:
    least = 1 + found.minimum_effect
    if found.ratio is None:
        return False
    return found.ratio.low > 1 / least if aim is Verdict.LOWER else found.ratio.high < least


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


def _unmoved(knob: Knob, before: float | None, after: float | None) -> str:
    """A sentence if the counter did not move as predicted; empty if it did, or is unknown."""
    if before is None or after is None or has_changed(before, after, knob.direction):
        return ""
    return f"{knob.counter} {knob.counter_unit} went from {before:.3g} to {after:.3g}"


def moves_counter(knob: Knob, base: CounterReadings, switched: CounterReadings) -> bool | None:
    """Whether counting alone shows the predicted change; None if only timed trials could."""
    before, after = (counter_value(counts, knob.counter) for counts in (base, switched))
    if before is None or after is None or knob.counter in COUNTERS:
        return None
    return has_changed(before, after, knob.direction)


def without_trials(
    knob: Knob, base: CounterReadings, switched: CounterReadings
) -> KnobResult | None:
    """The result for a knob of which no timed trial is needed; None for all others.

    One with which the target does not answer; and one whose counter stays as it is, because no
    effect of it could be accepted.
    """
    if not switched.requests:
        return KnobResult(knob=knob, decision=Decision.BROKEN, sentence=switched.syscalls_reason)
    if moves_counter(knob, base, switched) is not False:
        return None
    before, after = (counter_value(counts, knob.counter) for counts in (base, switched))
    return KnobResult(
        knob=knob,
        decision=Decision.COUNTER_UNCHANGED,
        before=before,
        after=after,
        sentence=f"refuted without a timed trial: {_unmoved(knob, before, after)}",
    )


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


# A failure is the knob's fault and rejects it; invalid trials, and a rate that one of the two did
# not reach, leave it undecided.
_WITHOUT_FIGURE = {
    Verdict.FAILED: Decision.BROKEN,
    Verdict.INVALID: Decision.UNDECIDED,
    Verdict.UNREACHED: Decision.UNDECIDED,
}


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


def paying(found: Mapping[str, Comparison]) -> frozenset[str]:
    """The arms that are proven to cost less than the baseline."""
    return frozenset(arm for arm, one in found.items() if _pays(one, Verdict.LOWER))


def _pays(comparison: Comparison, verdict: Verdict) -> bool:
    """Whether the interval exceeds the minimum effect, corrected for all comparisons."""
    return comparison.verdict is verdict and comparison.proven


def _no_gain(one: KnobEvidence, unmoved: str) -> tuple[Decision, str]:
    alone = one.alone
    seems_lower = alone.verdict.is_lower and not alone.proven
    is_open = seems_lower or alone.verdict in {Verdict.INCONCLUSIVE, Verdict.DISPUTED}
    if is_open and not _is_excluded(alone, Verdict.LOWER):
        # A time that is measured varies like the cost; what is counted does not.
        if unmoved and one.knob.counter not in COUNTERS:
            return Decision.COUNTER_UNCHANGED, f"no effect was shown, and {unmoved}"
        if alone.ratio is None and alone.remarks:
            return Decision.UNDECIDED, "; ".join(alone.remarks)
        sentence = "a gain in the blocks so far" if seems_lower else "the interval holds both"
        sentence += ", not proven" if seems_lower else " a gain and none"
        return Decision.UNDECIDED, _more(alone, sentence)
    least = 100 * one.alone.minimum_effect
    return Decision.NO_GAIN, f"no effect above {least:g} % was shown, alone or with the others"


def _more(comparison: Comparison, sentence: str) -> str:
    if comparison.blocks_needed:
        return f"{sentence}; {more_blocks(comparison.blocks_needed)} would decide"
    return sentence


def is_confirmed(bundle: Comparison) -> bool:
    return _pays(bundle, Verdict.LOWER)
