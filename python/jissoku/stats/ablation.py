"""Which knobs are accepted: by their effect's interval, their counter and the answers' bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jissoku.model import (
    Answer,
    Comparison,
    Counts,
    Decision,
    Estimate,
    Knob,
    Moves,
    Remedy,
    Run,
    Trial,
    Verdict,
)
from jissoku.stats import trial_counters
from jissoku.stats.compare import Evidence, find
from jissoku.stats.readings import readings
from jissoku.stats.screening import is_worth_it
from jissoku.stats.summary import barred

# A counter has moved when it changed by this part of what it was, and by so much per request: a
# few calls more or less in some hundred requests are starting and stopping.
MOVED_PART = 0.1
MOVED_LEAST = 0.01

# Not counted among the system calls: what the asking client itself saw.
SEEN_BY_CLIENT = frozenset({"connections", "segments", "bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that is known of one knob.

    Attributes:
        alone: With it only, against as it is.
        without: All but it, against all; None when it is the only one.
        same_answers: Whether every arm with it answered as the one without did.
    """

    knob: Knob
    alone: Comparison
    without: Comparison | None
    base: Counts
    switched: Counts
    same_answers: bool


def against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Every arm against the run's baseline, with the number of these comparisons counted.

    The arms are not compared with each other, so a run of many arms stays sharp.
    """
    evidence = Evidence(run, readings(trials), barred(run, trials))
    names = [arm.name for arm in run.arms if arm.name not in {run.baseline, run.floor, run.twin}]
    return {name: find(evidence, name, run.baseline, len(names)).comparison for name in names}


def same_answers(trials: Sequence[Trial], arms: Sequence[str]) -> bool:
    """Whether status, type and every byte of the body were the same in all of these arms."""
    seen: set[tuple[int, str, str]] = set()
    for lane in (lane for trial in trials for lane in trial.lanes if lane.arm in arms):
        if lane.answer is not None:
            seen.add(_compared(lane.answer))
    return len(seen) == 1


def _compared(answer: Answer) -> tuple[int, str, str]:
    return answer.status, answer.content_type, answer.body_sha256


def reading(counts: Counts, counter: str) -> float | None:
    """A counter per request; None when it could not be watched, which is not zero."""
    if counter in SEEN_BY_CLIENT | trial_counters.ALL:
        return counts.per_request.get(counter)
    if counts.calls_reason:
        return None
    return counts.per_request.get(counter, 0.0)


def has_moved(before: float, after: float, moves: Moves) -> bool:
    """Whether a counter went where it should, and far enough."""
    way = before - after if moves is Moves.FALLS else after - before
    return way >= max(MOVED_LEAST, MOVED_PART * before)


def left_out(
    knobs: Sequence[Knob],
    counts: Mapping[str, Counts],
    effects: Mapping[str, Estimate] | None,
    minimum_effect: float,
) -> tuple[Remedy, ...]:
    """What a first look leaves out: knobs that break the target or surely save nothing.

    Without effects, since too few duets counted, only the broken ones are.
    """
    found = []
    for knob in knobs:
        if not counts[knob.name].requests:
            reason = counts[knob.name].calls_reason
            found.append(Remedy(knob=knob, decision=Decision.BROKEN, sentence=reason))
        elif effects is not None and not is_worth_it(effects[knob.name], minimum_effect):
            effect = effects[knob.name].text
            sentence = f"in a design of all knobs its own effect on the cost is {effect}"
            found.append(Remedy(knob=knob, decision=Decision.SCREENED, sentence=sentence))
    return tuple(found)


def decide(found: Sequence[Findings]) -> tuple[Remedy, ...]:
    """Decides about every knob, in the order given.

    A knob must pay by itself or beside the others, and of several that pay by themselves and do
    the same thing only the one that pays most is kept.
    """
    first = [_decided(one) for one in found]
    kept = {remedy.knob.counter for remedy in first if remedy.decision is Decision.ACCEPTED}
    twice = [remedy for remedy in first if remedy.decision is Decision.REDUNDANT]
    saved: dict[str, Remedy] = {}
    for remedy in sorted(twice, key=_cost_alone):
        if remedy.knob.counter not in kept:
            kept.add(remedy.knob.counter)
            saved[remedy.knob.name] = replace(
                remedy,
                decision=Decision.ACCEPTED,
                sentence="pays alone, and is kept for those that do the same beside it",
            )
    return tuple(saved.get(remedy.knob.name, remedy) for remedy in first)


def _cost_alone(remedy: Remedy) -> float:
    ratio = remedy.alone.ratio if remedy.alone else None
    return ratio.value if ratio else 1.0


def _decided(one: Findings) -> Remedy:
    before = reading(one.base, one.knob.counter)
    after = reading(one.switched, one.knob.counter)
    decision, sentence = _decision(one, before, after)
    return Remedy(
        knob=one.knob,
        decision=decision,
        alone=one.alone,
        without=one.without,
        before=before,
        after=after,
        sentence=sentence,
    )


def _decision(one: Findings, before: float | None, after: float | None) -> tuple[Decision, str]:
    for comparison in (one.alone, one.without):
        if comparison and comparison.verdict in _WITHOUT_FIGURE:
            return _WITHOUT_FIGURE[comparison.verdict], "; ".join(comparison.remarks)
    if not one.same_answers:
        return Decision.DIFFERENT, "the answers are not the same bytes with it and without it"
    if not _pays(one.alone, Verdict.FASTER) and not _pays_beside(one):
        return _no_gain(one)
    return _counted(one, before, after) or _beside(one)


# A knob that breaks the server is its own fault, a noisy machine is not.
_WITHOUT_FIGURE = {Verdict.FAILED: Decision.BROKEN, Verdict.INVALID: Decision.UNDECIDED}


def _counted(
    one: Findings, before: float | None, after: float | None
) -> tuple[Decision, str] | None:
    """What the counter has against an effect that is there; None when it bears it out."""
    counter = one.knob.counter
    if before is None or after is None:
        reason = one.base.calls_reason or one.switched.calls_reason or "it was not seen"
        return (
            Decision.UNWATCHED,
            f"an effect is there, and of {counter} nothing is known: {reason}",
        )
    if not has_moved(before, after, one.knob.moves):
        return Decision.UNMOVED, (
            f"an effect is there, but {counter} {one.knob.per} went from {before:.3g} to"
            f" {after:.3g}: whatever changed, it was not this"
        )
    return None


def _beside(one: Findings) -> tuple[Decision, str]:
    """Whether what pays is needed beside the others."""
    if one.without is None or _pays_beside(one):
        return Decision.ACCEPTED, "its effect and its counter are as predicted"
    if one.without.verdict is Verdict.INCONCLUSIVE:
        return Decision.UNDECIDED, _more(one.without, "pays alone; beside the others is undecided")
    return Decision.REDUNDANT, "pays alone, and nothing is lost when it is left out of all"


def _pays_beside(one: Findings) -> bool:
    return one.without is not None and _pays(one.without, Verdict.SLOWER)


def _pays(comparison: Comparison, verdict: Verdict) -> bool:
    """Whether the interval clears the minimum effect, with all comparisons counted."""
    return comparison.verdict is verdict and comparison.proven


def _no_gain(one: Findings) -> tuple[Decision, str]:
    undecided = [
        comparison
        for comparison in (one.alone, one.without)
        if comparison is not None
        and comparison.verdict in {Verdict.INCONCLUSIVE, Verdict.INTERFERENCE}
    ]
    if one.alone in undecided:
        return Decision.UNDECIDED, _more(one.alone, "the interval holds both a gain and none")
    least = 100 * one.alone.minimum_effect
    return Decision.NO_GAIN, f"no effect above {least:.0f} % was shown, alone or beside the others"


def _more(comparison: Comparison, sentence: str) -> str:
    if comparison.blocks_needed:
        return f"{sentence}; {comparison.blocks_needed} more blocks would decide"
    return sentence


def holds(bundle: Comparison) -> bool:
    """Whether the accepted knobs together are proven on blocks that chose none of them."""
    return _pays(bundle, Verdict.FASTER)
