"""From records to a summary: every estimate and verdict of a run, without reading or writing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jissoku.model import (
    Comparison,
    Run,
    Standing,
    Status,
    Summary,
    Trial,
    Verdict,
)
from jissoku.stats import campaign, tiers
from jissoku.stats.compare import Evidence, compare, contestants, noise
from jissoku.stats.flags import flags
from jissoku.stats.headline import headline
from jissoku.stats.readings import readings
from jissoku.stats.standing import Count, count, standing


def summarise(run: Run, trials: Sequence[Trial]) -> Summary:
    """Answers a run.

    Args:
        run: The header.
        trials: All trials that were recorded, in any order, failed and rejected ones among them.

    Returns:
        The same summary for the same records, always.
    """
    trials = tuple(sorted(trials, key=lambda trial: trial.index))
    counts = {arm.name: count(trials, arm.name) for arm in run.arms}
    evidence = Evidence(run, readings(trials), barred(run, trials))
    twin = noise(evidence)
    if twin is not None and twin.proven and twin.ratio is not None:
        # Nothing smaller than what equal servers showed today is worth a verdict.
        least = max(run.minimum_effect, abs(math.log(twin.ratio.value)))
        evidence = replace(evidence, run=replace(run, minimum_effect=least))
    comparisons = compare(evidence)
    unit = _unit(run, counts)
    shown = [arm for arm in run.arms if arm.name != run.twin]
    found = [standing(evidence, arm, counts[arm.name], unit) for arm in shown]
    standings = _ranked(run, found, comparisons)
    return Summary(
        run=run,
        headline=headline(run, standings, comparisons),
        unit=unit,
        standings=standings,
        comparisons=comparisons,
        twin=twin,
        flags=flags(run, trials, standings, comparisons, twin),
        blocks=len({trial.block for trial in trials if trial.counts}),
        trials_total=len(trials),
        trials_counted=sum(trial.counts for trial in trials),
        trials_rejected=sum(map(campaign.is_rejected, trials)),
    )


def barred(run: Run, trials: Sequence[Trial]) -> dict[str, tuple[Verdict, str]]:
    """Arms about which nothing may be said, and why."""
    found = {}
    counts = {arm.name: count(trials, arm.name) for arm in run.arms}
    noisy = campaign.too_noisy(trials)
    uneven = campaign.unevenly_rejected(trials, [arm.name for arm in run.arms])
    for name, known in counts.items():
        reason = known.breakdowns[0].reason if known.breakdowns else ""
        if known.status is Status.FAILED:
            found[name] = (Verdict.FAILED, f"{name}: {reason}")
        elif known.status is Status.INVALID:
            found[name] = (Verdict.INVALID, reason)
        elif noisy:
            found[name] = (Verdict.INVALID, noisy)
        elif name in uneven:
            found[name] = (Verdict.INVALID, f"{name}: {uneven[name]}")
    return found


def _unit(run: Run, counts: Mapping[str, Count]) -> str:
    for name in (run.floor, run.baseline):
        if name in counts and counts[name].status is Status.MEASURED:
            return name
    return ""


def _ranked(
    run: Run, found: Sequence[Standing], comparisons: Sequence[Comparison]
) -> tuple[Standing, ...]:
    """Cheapest first, with ranks for the contestants; arms without a multiple keep their order."""
    named = contestants(run)
    known = sorted((s for s in found if s.multiple), key=_multiple)
    unknown = [s for s in found if not s.multiple]
    apart = {frozenset((c.arm, c.against)) for c in comparisons if c.proven}
    ordered = [s.arm.name for s in known if s.arm.name in named]
    # One arm alone is first of nothing.
    ranks = {}
    if len(ordered) > 1:
        ranks = tiers.ranks(ordered, lambda one, other: frozenset((one, other)) in apart)
    return tuple(replace(s, rank=ranks.get(s.arm.name)) for s in (*known, *unknown))


def _multiple(known: Standing) -> float:
    assert known.multiple is not None, "only arms with a multiple are sorted"
    return known.multiple.value
