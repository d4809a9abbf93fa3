"""Whether a run breaks a bound: proven, disproven, or neither.

A bound is what `--fail-if` states, in the grammar of claims. It is exceeded if the whole interval
satisfies it, kept if no part of the interval does, and undecided in between, so that noise never
fails a build.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jissoku.inference import claims, decision, estimate
from jissoku.inference.compare import comparison_input, observed_noise
from jissoku.inference.decision import Decided
from jissoku.inference.expression import MEASURED, GrammarError, Inequality, parse
from jissoku.model import Run, Trial, updated
from jissoku.model.summary import BoundResult, BoundStatus, Comparison, Metric
from jissoku.model.wording import beyond_text

# What a metric's unit measures. A rate and a time have reciprocal units, but no bound needs both.
DIMENSIONS = {
    "cost": "time", "p50": "time", "p95": "time", "p99": "time", "p999": "time",
    "total_cpu": "time", "rate": "rate", "memory": "size",
}  # fmt: skip

# With its cores less busy than this a server sleeps after each request, and its costs vary more.
LOW_LOAD = 0.1

# `1.01 x cost(base)`, as people write it.
TIMES = re.compile(r"(?<=[\d)])\s*[x\N{MULTIPLICATION SIGN}]\s*(?=[\w(])")


def read_bound(text: str) -> Inequality:
    """Reads a bound: one comparison of measured values of a run's arms, or a GrammarError."""
    try:
        found = parse(TIMES.sub(" * ", text))
    except GrammarError as error:
        raise GrammarError(f"--fail-if {text!r}: {error}") from error
    if len(found) != 1 or found[0].relation not in {"<", ">"}:
        raise GrammarError(f"{text!r} is not one bound: write cost(head) > 1.01 x cost(base)")
    (link,) = found
    for one in link.quantities:
        if one.workload:
            raise GrammarError(f"{text!r}: a run has one workload, so leave out @{one.workload}")
        if one.is_count or one.is_benchmark:
            known = ", ".join(MEASURED)
            raise GrammarError(f"{text!r}: no {one.metric} is measured; there are {known}")
    # The units of all quantities have to cancel, so that a number is their bound.
    sides = (link.above, link.below)
    above, below = (Counter(DIMENSIONS[one.metric] for one in side) for side in sides)
    if above != below:
        raise GrammarError(
            f"{text!r} has a unit, and its number has none: compare two arms, as in"
            " cost(head) > 1.01 x cost(base)"
        )
    return link


def check_arms(bounds: Sequence[str], names: Collection[str]) -> None:
    """Raises a GrammarError for another arm than these, before anything is measured."""
    for text in bounds:
        for one in read_bound(text).quantities:
            if one.arm not in names:
                known = ", ".join(sorted(names))
                raise GrammarError(f"{text!r}: the run has no arm {one.arm!r}; there are {known}")


def needs_closed_loop(bounds: Sequence[str]) -> bool:
    """Whether a bound is on a value of the closed loop, which few blocks have otherwise."""
    metrics = {one.metric for text in bounds for one in read_bound(text).quantities}
    return not metrics.isdisjoint(claims.CLOSED_LOOP_METRICS)


def bounded_arms(text: str) -> frozenset[str]:
    return frozenset(one.arm for one in read_bound(text).quantities)


def bound_results(
    run: Run, trials: Sequence[Trial], bounds: Sequence[str]
) -> tuple[BoundResult, ...]:
    """The answer to each bound, at the heaviest load that its arms share.

    They are one family (Holm), decided as every comparison is, with the same checks and without the
    arms that have no verdict. What the A/A control is shown to differ by is noise, and has to be
    exceeded, too.
    """
    tests = [_test(run, tuple(trials), text) for text in bounds]
    settled = decision.settle([test.decided for test in tests])
    noise = math.log1p(observed_noise(comparison_input(run, trials), Metric.COST))
    return tuple(_result(test, found, noise) for test, found in zip(tests, settled, strict=True))


def confirmed(
    first: Sequence[BoundResult], second: Sequence[BoundResult]
) -> tuple[BoundResult, ...]:
    """Results of a run and of another one that was to confirm them: exceeded only in both."""
    return tuple(
        updated(one, status=BoundStatus.UNDECIDED, reason=_unconfirmed(other))
        if one.status is BoundStatus.EXCEEDED and other.status is not BoundStatus.EXCEEDED
        else one
        for one, other in zip(first, second, strict=True)
    )


def _unconfirmed(other: BoundResult) -> str:
    value = f": {other.ratio.text}" if other.ratio else ""
    reason = f" ({other.reason})" if other.reason else ""
    return f"a second run did not confirm it{value}{reason}"


@dataclass(frozen=True, slots=True)
class _BoundTest:
    blank: BoundResult
    link: Inequality
    decided: Decided
    campaign: claims.WorkloadTrials
    reason: str = ""


def _test(run: Run, trials: tuple[Trial, ...], text: str) -> _BoundTest:
    link = read_bound(text)
    blank = BoundResult(
        text=text, status=BoundStatus.UNDECIDED, bound=link.bound, relation=link.relation
    )
    check_arms((text,), {arm.name for arm in run.arms})
    whole = claims.WorkloadTrials(run=run, trials=trials, counters={})
    nothing = decision.decide_bound({}, link.bound)
    excluded = whole.comparison_input.excluded_arms
    for quantity in link.quantities:
        if quantity.arm in excluded:
            reason = f"{quantity.arm} has no verdict: {excluded[quantity.arm][1]}"
            return _BoundTest(blank, link, nothing, whole, reason)
    paced = [one.arm for one in link.quantities if one.metric not in claims.CLOSED_LOOP_METRICS]
    slow = ""
    for load in reversed(run.loads):
        campaign = updated(whole, run=updated(run, loads=(load,)))
        if here := whole.comparison_input.unreached_text(load, *paced):
            slow = slow or here
            continue
        sample = claims.log_ratio_sample(campaign, link.above, link.below)
        if sample.logs:
            decided = decision.decide_bound(
                sample.logs, link.bound, sample.checks, sample.looks, sample.block_s
            )
            return _BoundTest(updated(blank, load=load), link, decided, campaign)
    reason = slow or "no valid trials have these values"
    return _BoundTest(blank, link, nothing, whole, reason)


def _result(test: _BoundTest, found: Comparison, noise: float) -> BoundResult:
    blank = test.blank
    ratio = found.ratio and estimate.scaled(found.ratio, blank.bound)
    known = updated(blank, ratio=ratio)
    if not (test.reason or found.is_out_of_reach):
        known = updated(
            known, blocks_needed=found.blocks_needed, seconds_needed=found.seconds_needed
        )
    is_above = not found.verdict.is_lower
    reason = test.reason
    if not reason and not found.proven:
        reason = decision.doubt(found, blank.bound) or _not_proven(found) + _of_low_load(test)
        out_of_reach = beyond_text(found)
        reason += f"; out of reach: {out_of_reach}" if out_of_reach else ""
    reason = reason or claims.rate_doubt(lambda _: test.campaign, test.link, is_above=is_above)
    if reason or found.ratio is None:
        return updated(known, reason=reason)
    if is_above != (blank.relation == ">"):
        return updated(known, status=BoundStatus.KEPT)
    beyond = math.log(found.ratio.low) if is_above else -math.log(found.ratio.high)
    if noise >= beyond and noise > 0:
        reason = "the A/A control differs, too, by more than the bound is exceeded"
        return updated(known, reason=reason)
    return updated(known, status=BoundStatus.EXCEEDED)


def _of_low_load(test: _BoundTest) -> str:
    """Why costs vary much at a load, as the end of a sentence; empty if it is no low one."""
    load = test.blank.load
    conditions = (
        one.conditions
        for one in test.campaign.trials
        if one.conditions and one.kind.is_joint and load and one.load_rps == load.rate_rps
    )
    busy = [one.server_cores_busy_fraction for one in conditions]
    known = [one for one in busy if one is not None]
    if not known or statistics.median(known) >= LOW_LOAD:
        return ""
    share = f"{100 * statistics.median(known):.0f} %"
    return f"; the servers used {share} of their cores, and at a higher rate (-R) costs vary less"


def _not_proven(found: Comparison) -> str:
    if found.p_value is None or found.ratio is None or "too few" in "".join(found.remarks):
        return next(iter(found.remarks), "no valid trials have these values")
    if found.ratio.low <= 1 <= found.ratio.high:
        return "the interval contains the bound"
    return "with all bounds counted, chance may explain the distance from the bound"
