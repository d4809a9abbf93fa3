"""Runs of one question with other seeds, kept in records/repeatability: do they say the same?

The table in records/README.md is made from them; `python -m tests.test_repeatability` prints it.
"""

import itertools
import sys
from pathlib import Path

from jissoku import records, stats
from jissoku.model import Comparison, Load, Metric, Summary

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "records"
FOLDERS = sorted((RECORDS / "repeatability").iterdir())
BEGIN, END = "<!-- repeatability -->\n", "<!-- /repeatability -->\n"

# Of all pairs of runs at all loads, whose 95 % intervals have to overlap.
OVERLAP_MIN = 0.95

Key = tuple[str, str, Load]


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


def table(summaries: list[Summary]) -> str:
    """Each pair against the baseline at each load, a column a run, and how many overlap."""
    ratios = _ratios(summaries)
    heads = " | ".join(f"seed {summary.run.seed}" for summary in summaries)
    lines = [f"| CPU time per request, {summaries[0].run.baseline} = 1 | {heads} |"]
    lines.append("|---" * (1 + len(summaries)) + "|")
    for arm, against, load in ratios:
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
        f"Over all pairs of targets and loads the intervals of two runs overlap in {sum(found)} of"
        f" {len(found)} cases."
    )
    return "\n".join(lines) + "\n"


def _summaries() -> list[Summary]:
    return [stats.summarise(*records.read(folder)) for folder in FOLDERS]


def _ratios(summaries: list[Summary]) -> dict[Key, list[Comparison]]:
    found: dict[Key, list[Comparison]] = {}
    for summary in summaries:
        for one in summary.by(Metric.COST):
            if one.ratio is not None:
                found.setdefault((one.arm, one.against, one.load), []).append(one)
    return dict(sorted(found.items(), key=lambda item: (item[0][2].rate_rps or 0, item[0][:2])))


def _overlaps(ratios: dict[Key, list[Comparison]]) -> list[bool]:
    found = []
    for comparisons in ratios.values():
        known = [one.ratio for one in comparisons if one.ratio is not None]
        for one, other in itertools.combinations(known, 2):
            found.append(one.low <= other.high and other.low <= one.high)
    return found


if __name__ == "__main__":
    sys.stdout.write(table(_summaries()))
