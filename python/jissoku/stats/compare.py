"""Who uses less CPU per request, by how much, and is it proven?"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from jissoku.model import Comparison, Estimate, Run, Source, Verdict
from jissoku.stats import estimate, interference, multiple
from jissoku.stats.pairing import Pairing, pairing
from jissoku.stats.readings import Readings
from jissoku.stats.sentence import sentence
from jissoku.stats.verdict import MINIMUM_EFFECT_SOLO, Judgement, judge


@dataclass(frozen=True, slots=True)
class Evidence:
    """What comparisons are made from.

    Attributes:
        barred: Arms without a verdict, each with why: (failed or invalid, a reason in words).
    """

    run: Run
    readings: Readings
    barred: Mapping[str, tuple[Verdict, str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """A comparison, and the log ratios that decided it, by block."""

    comparison: Comparison
    logs: Mapping[int, float]


def contestants(run: Run) -> tuple[str, ...]:
    """Arms that are ranked. The floor is the unit, and ranked only where it was asked about."""
    names = tuple(arm.name for arm in run.arms if arm.name != run.twin)
    others = tuple(name for name in names if name != run.floor)
    return names if run.baseline == run.floor or len(others) < 2 else others


def pairs(run: Run) -> tuple[tuple[str, str], ...]:
    """(candidate, against) of every pair of contestants; those against the baseline first."""
    names = contestants(run)
    ordered = sorted(names, key=lambda name: name != run.baseline)
    return tuple((later, earlier) for earlier, later in combinations(ordered, 2))


def compare(evidence: Evidence) -> tuple[Comparison, ...]:
    """All pairs on the primary metric, with their number taken into account."""
    asked = pairs(evidence.run)
    found = [find(evidence, arm, against, len(asked)).comparison for arm, against in asked]
    adjusted = multiple.holm([comparison.p_value for comparison in found])
    return tuple(
        replace(comparison, p_holm=p_holm)
        for comparison, p_holm in zip(found, adjusted, strict=True)
    )


def noise(evidence: Evidence) -> Comparison | None:
    """The baseline against its twin; None in a run without one."""
    if not evidence.run.twin:
        return None
    return find(evidence, evidence.run.twin, evidence.run.baseline, 1).comparison


def find(evidence: Evidence, arm: str, against: str, comparisons: int) -> Finding:
    """One pair. `comparisons` is how many pairs the question has altogether."""
    for name in (arm, against):
        if name in evidence.barred:
            verdict, reason = evidence.barred[name]
            bare = Comparison(arm=arm, against=against, verdict=verdict, remarks=(reason,))
            return Finding(replace(bare, sentence=sentence(bare)), {})
    pair = pairing(evidence.readings, arm, against, evidence.run.reference)
    minimum_effect = evidence.run.minimum_effect
    if pair.source is Source.SOLO:
        minimum_effect = max(minimum_effect, MINIMUM_EFFECT_SOLO)
    finding = _judged(
        Comparison(
            arm=arm,
            against=against,
            verdict=Verdict.INCONCLUSIVE,
            rates_rps=tuple(sorted(rate for rate in pair.rates_rps if rate is not None)),
            connections=pair.connections,
            minimum_effect=minimum_effect,
        ),
        pair,
        comparisons,
    )
    # In a closed loop one arm alone has the whole core: there is no like load to check it at.
    paced = len(pair.rates_rps) == 1 and pair.rates_rps[0] is not None
    if pair.source is not Source.SOLO and paced and finding.comparison.ratio:
        finding = _checked(finding, pair, evidence.readings, comparisons)
    worded = replace(finding.comparison, sentence=sentence(finding.comparison))
    return Finding(worded, finding.logs)


def _judged(blank: Comparison, pair: Pairing, comparisons: int) -> Finding:
    """Fills in what the pairing's logs say."""
    logs = [pair.logs[block] for block in sorted(pair.logs)]
    judgement = judge(logs, blank.minimum_effect, allowance=pair.log_allowance)
    known = replace(
        blank,
        verdict=judgement.verdict,
        source=pair.source,
        through=pair.through,
        allowance=pair.allowance,
        blocks_needed=judgement.blocks_needed,
        remarks=tuple(_remarks(judgement, pair, logs)),
    )
    if len(logs) < 2:
        return Finding(known, pair.logs)
    interval = estimate.t_interval(logs).widened(pair.log_allowance)
    return Finding(
        replace(
            known,
            proven=judgement.verdict.tells_apart and _is_proven(logs, pair, comparisons),
            ratio=estimate.as_ratio(interval, logs),
            robust=_robust(logs, pair.log_allowance),
            p_value=estimate.t_test(logs, allowance=pair.log_allowance),
            p_sign_flip=estimate.sign_flip(logs, allowance=pair.log_allowance),
        ),
        pair.logs,
    )


def _checked(finding: Finding, pair: Pairing, readings: Readings, comparisons: int) -> Finding:
    """Holds the duets' ratio against solo trials at the same rate, which win a contradiction."""
    duet = finding.comparison
    solo_logs = interference.solo_log_ratios(readings, duet.arm, duet.against, pair.rates_rps[0])
    solo = estimate.level(list(solo_logs.values()))
    interval = estimate.t_interval(list(pair.logs.values()))
    if not interference.contradicts(interval, solo_logs, comparisons):
        return Finding(replace(duet, solo=solo), finding.logs)
    alone = _judged(
        replace(duet, minimum_effect=max(duet.minimum_effect, MINIMUM_EFFECT_SOLO)),
        replace(pair, logs=solo_logs, source=Source.SOLO, through=""),
        comparisons,
    )
    # How much is in dispute, who is dearer may not be: then both kinds of trial bear witness to it.
    agree = duet.proven and estimate.t_interval(list(solo_logs.values())).same_side(interval)
    return Finding(
        replace(
            alone.comparison,
            verdict=Verdict.INTERFERENCE,
            proven=agree or alone.comparison.proven,
            solo_verdict=duet.verdict if agree else alone.comparison.verdict,
            duet=duet.ratio,
            solo=solo,
            remarks=(
                "the two disturb each other when they run at the same time: solo trials decide",
                *alone.comparison.remarks,
            ),
        ),
        alone.logs,
    )


def _is_proven(logs: list[float], pair: Pairing, comparisons: int) -> bool:
    """Whether the interval excludes 1 even when it is as wide as all comparisons together ask."""
    wide = estimate.t_interval(logs, multiple.confidence(comparisons)).widened(pair.log_allowance)
    return wide.low > 0 or wide.high < 0


def _robust(logs: list[float], log_allowance: float) -> Estimate | None:
    interval = estimate.hodges_lehmann(logs)
    return None if interval is None else estimate.as_ratio(interval.widened(log_allowance), logs)


def _remarks(judgement: Judgement, pair: Pairing, logs: list[float]) -> Iterator[str]:
    if judgement.remark:
        yield judgement.remark
    if pair.allowance > 1:
        rates = " and ".join("closed loop" if r is None else f"{r:,}" for r in pair.rates_rps)
        yield (
            f"measured at different rates ({rates} requests/s): the interval leaves room for"
            f" a factor of {pair.allowance:g} each way"
        )
    elif pair.rates_rps == (None,):
        yield "measured in the closed loop, each at the rate it reached"
    if len(logs) >= 2 and (far := estimate.outliers(logs)):
        spot = ", ".join(f"{100 * math.expm1(logs[i]):+.1f} %" for i in far)
        yield f"far from the other blocks, and kept: {spot}"
