"""Runs of one question with different seeds, in records/repeatability: whether they agree.

`python -m tests.test_repeatability` prints the tables of records/README.md, made from them.
"""

import itertools
import math
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from scipy import stats as distributions  # type: ignore[import-untyped]

from jissoku import inference, records
from jissoku.model import Comparison, Load, Machine, Metric, Summary

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "records"
FOLDERS = sorted((RECORDS / "repeatability").iterdir())
BEGIN, END = "<!-- repeatability -->\n", "<!-- /repeatability -->\n"
PRECISION_BEGIN, PRECISION_END = "<!-- precision -->\n", "<!-- /precision -->\n"

# Blocks of quick mode, and the most of standard mode.
QUICK, STANDARD = 9, 40

# Half-widths, for which the number of blocks is said.
HALF_WIDTHS = (0.01, 0.02, 0.04)

# Of all pairs of runs at all loads, whose 95 % intervals have to overlap.
OVERLAP_MIN = 0.95

# The first test that needs the records reads all of them.
pytestmark = pytest.mark.slow

Key = tuple[Machine, str, str, Load]


def test_intervals_of_any_two_runs_overlap() -> None:
    found = _overlaps(_ratios(_summaries()))
    assert sum(found) / len(found) >= OVERLAP_MIN, f"{sum(found)} of {len(found)}"


def test_no_two_runs_prove_opposite_orders() -> None:
    for key, ratios in _ratios(_summaries()).items():
        directions = {
            one.verdict.is_difference and one.ratio.value > 1
            for one in ratios
            if one.proven and one.ratio
        }
        assert len(directions) < 2, key


def test_the_table_is_made_of_the_records() -> None:
    text = (RECORDS / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(BEGIN)
    assert rest.partition(END)[0] == table(_summaries())


def test_the_precision_is_that_of_the_records() -> None:
    text = (RECORDS / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(PRECISION_BEGIN)
    assert rest.partition(PRECISION_END)[0] == precision(_summaries())


def precision(summaries: tuple[Summary, ...]) -> str:
    """What the spread between blocks, pooled over the runs, allows for each pair."""
    heads = " | ".join(f"blocks for +- {100 * width:.0f} %" for width in HALF_WIDTHS)
    columns = f"standard deviation of a block | {QUICK} blocks | {STANDARD} blocks"
    lines = [f"| against {summaries[0].run.baseline} | {columns} | {heads} |"]
    lines.append("|---" * (4 + len(HALF_WIDTHS)) + "|")
    spreads: dict[tuple[str, str, Load], list[Comparison]] = {}
    for (_, arm, against, load), comparisons in _ratios(summaries).items():
        spreads.setdefault((arm, against, load), []).extend(comparisons)
    for arm, against, load in _by_load(spreads):
        if against == summaries[0].run.baseline:
            known = spreads[arm, against, load]
            variances = [one.ratio.sd_log**2 for one in known if one.ratio]
            spread = math.sqrt(sum(variances) / len(variances))
            widths = [f"+- {100 * _half_width(spread, n):.1f} %" for n in (QUICK, STANDARD)]
            needed = [f"{_blocks_for(spread, width):,}" for width in HALF_WIDTHS]
            cells = [f"{100 * spread:.0f} %", *widths, *needed]
            lines.append(f"| {arm} at {load.text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _half_width(spread: float, blocks: int) -> float:
    """Of the 95 % interval of a ratio, relative to it."""
    quantile = float(distributions.t.ppf(0.975, blocks - 1))
    return math.expm1(quantile * spread / math.sqrt(blocks))


def _blocks_for(spread: float, half_width: float) -> int:
    return next(n for n in itertools.count(3) if _half_width(spread, n) <= half_width)


def table(summaries: tuple[Summary, ...]) -> str:
    """Each pair against the baseline at each load, a column a run, and how many overlap."""
    ratios = _ratios(summaries)
    pairs = dict.fromkeys((arm, against, load) for _, arm, against, load in ratios)
    heads = " | ".join(f"seed {summary.run.seed}" for summary in summaries)
    lines = [f"| CPU time per request, {summaries[0].run.baseline} = 1 | {heads} |"]
    lines.append("|---" * (1 + len(summaries)) + "|")
    for arm, against, load in _by_load(pairs):
        if against == summaries[0].run.baseline:
            cells = [
                next(
                    (
                        c.ratio.text
                        for c in s.by(Metric.COST, load)
                        if (c.arm, c.against) == (arm, against) and c.ratio
                    ),
                    "not reached",
                )
                for s in summaries
            ]
            lines.append(f"| {arm} at {load.text} | {' | '.join(cells)} |")
    found = _overlaps(ratios)
    lines.append("")
    lines.append(
        f"Over all pairs of targets and loads the intervals of two runs on one machine overlap in"
        f" {sum(found)} of {len(found)} cases."
    )
    return "\n".join(lines) + "\n"


@cache
def _summaries() -> tuple[Summary, ...]:
    return tuple(inference.summarise(*records.read(folder)) for folder in FOLDERS)


def _ratios(summaries: tuple[Summary, ...]) -> dict[Key, list[Comparison]]:
    """Each pair's ratios at one load on one machine: another machine may have other ratios."""
    found: dict[Key, list[Comparison]] = {}
    for summary in summaries:
        for one in summary.by(Metric.COST):
            if one.ratio is not None:
                key = (summary.run.machine, one.arm, one.against, one.load)
                found.setdefault(key, []).append(one)
    return found


def _by_load(pairs: Iterable[tuple[str, str, Load]]) -> list[tuple[str, str, Load]]:
    return sorted(pairs, key=lambda pair: (pair[2].rate_rps or 0, pair[:2]))


def _overlaps(ratios: dict[Key, list[Comparison]]) -> list[bool]:
    found = []
    for comparisons in ratios.values():
        known = [one.ratio for one in comparisons if one.ratio is not None]
        for one, other in itertools.combinations(known, 2):
            found.append(one.low <= other.high and other.low <= one.high)
    return found


if __name__ == "__main__":
    sys.stdout.write(table(_summaries()))
    sys.stdout.write(precision(_summaries()))
