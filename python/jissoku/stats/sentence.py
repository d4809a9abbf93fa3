"""Verdicts in plain words, the same ones in every kind of report."""

from jissoku.model import Comparison, Estimate, Verdict
from jissoku.stats.verdict import BLOCKS_MIN


def times(estimate: Estimate) -> str:
    """The factor with its interval, as people write it."""
    value, interval = estimate.text.split(" ", 1)
    return f"{value} \N{MULTIPLICATION SIGN} {interval}"


def sentence(comparison: Comparison) -> str:
    """Who uses how much of whose CPU, and what follows."""
    arm, against, verdict = comparison.arm, comparison.against, comparison.verdict
    if comparison.ratio is None:
        reason = f" ({comparison.remarks[0]})" if comparison.remarks else ""
        return f"{arm} against {against}: {verdict}{reason}"
    uses = f"{arm} uses {times(comparison.ratio)} the CPU of {against} per request"
    if verdict is Verdict.INTERFERENCE and comparison.duet:
        seen = f"{uses} when each runs alone, {times(comparison.duet)} side by side: {verdict}"
        if not comparison.proven:
            return seen
        if comparison.ratio.blocks < BLOCKS_MIN:
            return f"{seen}; {comparison.solo_verdict} is proven, by how much is open"
        return f"{seen}; alone it is {comparison.solo_verdict}, proven"
    if verdict is Verdict.INCONCLUSIVE and comparison.blocks_needed:
        return f"{uses}: {verdict} ({comparison.blocks_needed} more blocks may decide)"
    return f"{uses}: {verdict}{', proven' if comparison.proven else ''}"
