"""Whether a run breaks a bound: proven, disproven, or neither.

A bound is what `--fail-if` states, in the grammar of claims. It is exceeded if the whole interval
satisfies it, kept if no part of the interval does, and undecided in between, so that noise never
fails a build.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence

from jissoku.model import Run, Trial
from jissoku.model.bound import BoundResult, BoundStatus
from jissoku.model.updated import updated
from jissoku.stats import estimate
from jissoku.stats.claim_quantities import LogRatioSample, WorkloadTrials, log_ratio_sample
from jissoku.stats.compare import aa_control
from jissoku.stats.expression import GrammarError
from jissoku.stats.inequality import MEASURED, Inequality, parse
from jissoku.stats.verdict import BLOCKS_NEEDED_MAX, VERDICT_BLOCKS_MIN

# What a metric's unit measures. A rate and a time have reciprocal units, but no bound needs both.
DIMENSIONS = {
    "cost": "time", "p50": "time", "p95": "time", "p99": "time", "p999": "time",
    "total_cpu": "time", "rate": "rate", "memory": "size",
}  # fmt: skip

# Measured in the closed loop only.
CLOSED_LOOP_METRICS = {"rate", "memory", "total_cpu"}

# `1.01 x cost(base)`, as people write it.
TIMES = re.compile(r"(?<=[\d)])\s*[x\N{MULTIPLICATION SIGN}]\s*(?=[\w(])")


def read_bound(text: str) -> Inequality:
    """Reads a bound: one comparison of measured values of a run's arms.

    Raises:
        GrammarError: It is none; the message quotes the place.
    """
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
    if not _is_ratio(link):
        raise GrammarError(
            f"{text!r} has a unit, and its number has none: compare two arms, as in"
            " cost(head) > 1.01 x cost(base)"
        )
    return link


def _is_ratio(link: Inequality) -> bool:
    """Whether the units of all quantities cancel, so that a number is their bound."""
    sides = (link.above, link.below)
    above, below = (Counter(DIMENSIONS[one.metric] for one in side) for side in sides)
    return above == below


def check_arms(bounds: Sequence[str], names: Collection[str]) -> None:
    """Checks that bounds name only these arms, before anything is measured.

    Raises:
        GrammarError: One names another arm, or as `read_bound`.
    """
    for text in bounds:
        for one in read_bound(text).quantities:
            if one.arm not in names:
                known = ", ".join(sorted(names))
                raise GrammarError(f"{text!r}: the run has no arm {one.arm!r}; there are {known}")


def cost_bounds(bounds: Sequence[str]) -> tuple[float, ...]:
    """The numbers that ratios of costs are compared with.

    Raises:
        GrammarError: As `read_bound`.
    """
    links = [read_bound(text) for text in bounds]
    return tuple(
        link.bound for link in links if {one.metric for one in link.quantities} == {"cost"}
    )


def needs_closed_loop(bounds: Sequence[str]) -> bool:
    """Whether a bound is on a value of the closed loop, which few blocks have otherwise.

    Raises:
        GrammarError: As `read_bound`.
    """
    metrics = {one.metric for text in bounds for one in read_bound(text).quantities}
    return not metrics.isdisjoint(CLOSED_LOOP_METRICS)


def bound_results(
    run: Run, trials: Sequence[Trial], bounds: Sequence[str]
) -> tuple[BoundResult, ...]:
    """The answer to each bound, at the heaviest load that its arms share.

    Each has its part of 5 % (Bonferroni). What the A/A control is shown to differ by is noise, and
    has to be exceeded, too.

    Raises:
        GrammarError: As `read_bound`.
    """
    confidence = 1 - 0.05 / max(1, len(bounds))
    noise = _noise(run, trials)
    return tuple(_result(run, trials, text, confidence, noise) for text in bounds)


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


def _result(
    run: Run, trials: Sequence[Trial], text: str, confidence: float, noise: float
) -> BoundResult:
    link = read_bound(text)
    blank = BoundResult(
        text=text, status=BoundStatus.UNDECIDED, bound=link.bound, relation=link.relation
    )
    check_arms((text,), {arm.name for arm in run.arms})
    for load in reversed(run.loads):
        sample = _sample(updated(run, loads=(load,)), trials, link)
        if sample.logs:
            return _decided(updated(blank, load=load), sample, confidence, noise)
    return updated(blank, reason="no valid trials have these values")


def _sample(run: Run, trials: Sequence[Trial], link: Inequality) -> LogRatioSample:
    workload = WorkloadTrials(run=run, trials=tuple(trials), counters={})
    return log_ratio_sample(workload, link.above, link.below)


def _decided(
    blank: BoundResult, sample: LogRatioSample, confidence: float, noise: float
) -> BoundResult:
    logs = [sample.logs[block] for block in sorted(sample.logs)]
    if len(logs) < VERDICT_BLOCKS_MIN:
        few = f"{len(logs)} blocks are too few: at least {VERDICT_BLOCKS_MIN} are needed"
        return updated(blank, reason=few, blocks_needed=VERDICT_BLOCKS_MIN - len(logs))
    interval = estimate.t_interval(logs, confidence)
    found = updated(blank, ratio=estimate.as_ratio(interval, logs))
    bound = math.log(blank.bound)
    if interval.low <= bound <= interval.high:
        needed = _blocks_needed(logs, bound, confidence)
        return updated(found, reason="the interval contains the bound", blocks_needed=needed)
    is_above = interval.low > bound
    robust = estimate.hodges_lehmann(logs, confidence)
    if robust is not None and (robust.low <= bound if is_above else robust.high >= bound):
        return updated(found, reason="Student's t and Hodges-Lehmann disagree")
    if is_above != (blank.relation == ">"):
        return updated(found, status=BoundStatus.KEPT)
    beyond = (interval.low - bound) if is_above else (bound - interval.high)
    doubt = _doubt(sample, blank.bound, noise - beyond, is_above=is_above)
    return updated(
        found, reason=doubt, status=BoundStatus.UNDECIDED if doubt else BoundStatus.EXCEEDED
    )


def _doubt(sample: LogRatioSample, bound: float, excess: float, *, is_above: bool) -> str:
    """What speaks against a proof; `excess`: by how much noise is larger than what is shown."""
    if excess >= 0:
        return "the A/A control differs, too, by more than the bound is exceeded"
    for check in sample.checks:
        if not check.agrees and check.ratio and (check.ratio.value > bound) != is_above:
            return f"cross-checked ({check.name}) the ratio is {check.ratio.text}"
    return ""


def _noise(run: Run, trials: Sequence[Trial]) -> float:
    """By how much equal arms are shown to differ in this run, as a logarithm; 0 if they do not."""
    known = WorkloadTrials(run=run, trials=tuple(trials), counters={}).comparison_input
    shown = [one.ratio.value for one in aa_control(known) if one.proven and one.ratio]
    return max((abs(math.log(ratio)) for ratio in shown), default=0.0)


def _blocks_needed(logs: Sequence[float], bound: float, confidence: float) -> int | None:
    """More blocks that would decide if mean and spread stayed as they are."""
    mean, spread = estimate.mean_and_sd(logs)
    for blocks in range(len(logs) + 1, BLOCKS_NEEDED_MAX + 1):
        interval = estimate.t_interval_from(abs(mean - bound), spread, blocks, confidence)
        if interval.low > 0:
            return blocks - len(logs)
    return None
