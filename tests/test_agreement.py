"""Time slices against each target alone, from the run kept in records/agreement.

Every block of this run starts each target anew, and measures it in time slices of two lengths and
alone. The table in records/README.md is made of them; `python -m tests.test_agreement` prints it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jissoku import records
from jissoku.model import Estimate, Load, LoadLevel, Run, TrialKind
from jissoku.stats import estimate
from jissoku.stats.ratio_samples import fixed_rate_ratios
from jissoku.stats.valid_trials import (
    ValidTrials,
    log_differences,
    log_ratios,
    measurement_of,
    valid_trials,
)

RECORDS = Path(__file__).parent.parent / "records"
FOLDER = RECORDS / "agreement" / "72"

# Of the offered rate, which a target has to answer alone: its cost applies to another rate else.
REACHED_MIN = 0.95
BEGIN, END = "<!-- agreement -->\n", "<!-- /agreement -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One target at one load: its ratio to the baseline, by block, as natural logarithms."""

    arm: str
    load: Load
    alone: Mapping[int, float]
    sliced: Mapping[int, float]
    long_slices: Mapping[int, float]

    def bias(self, sliced: Mapping[int, float]) -> Estimate:
        """The ratio from slices divided by the one alone; both of the same blocks."""
        return _mean(log_differences(sliced, self.alone))


def test_the_table_is_made_of_the_records() -> None:
    text = (RECORDS / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(BEGIN)
    assert rest.partition(END)[0] == table()


def test_no_interval_of_the_slices_excludes_the_target_alone_by_more_than_a_tenth() -> None:
    """The study's limit: values from time slices are within 10 % of the target alone."""
    for row in _rows():
        for sliced in (row.sliced, row.long_slices):
            bias = row.bias(sliced)
            assert bias.low <= 1.1, (row.arm, row.load.text)
            assert bias.high >= 1 / 1.1, (row.arm, row.load.text)


def test_slices_agree_with_the_target_alone_at_the_heavy_load() -> None:
    """The load at which single targets vary least between starts, by 2 to 3 %."""
    heavy = [row for row in _rows() if row.load.level is LoadLevel.HEAVY]
    assert len(heavy) == 5
    for row in heavy:
        for sliced in (row.sliced, row.long_slices):
            assert abs(row.bias(sliced).value - 1) <= 0.035, row.arm


def table() -> str:
    """A row per target and load: ratios to the baseline, and quotients of these, with intervals."""
    run, _ = _read()
    short, long = (f"{(ns or 0) / 1e6:.0f} ms" for ns in (run.slice_ns, run.check_slice_ns))
    lines = [
        (
            f"| CPU time per request, {run.baseline} = 1 | alone | slices of {short} | / alone"
            f" | slices of {long} | / alone |"
        ),
        "|---" * 6 + "|",
    ]
    for row in _rows():
        cells = [_mean(row.alone).text]
        for one in (row.sliced, row.long_slices):
            cells += [_mean(one).text, row.bias(one).text]
        lines.append(f"| {row.arm} at {row.load.text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@cache
def _read() -> tuple[Run, ValidTrials]:
    run, trials = records.read(FOLDER)
    return run, valid_trials(trials)


def _rows() -> Iterator[Row]:
    run, trials = _read()
    for load in run.loads:
        at_load = trials.at(load)
        for arm in sorted(arm.name for arm in run.arms if arm.name != run.baseline):
            sliced, other = (
                log_ratios(
                    at_load.with_slice_length(length).paired(
                        TrialKind.TIME_SLICED, arm, run.baseline
                    ),
                    arm,
                    run.baseline,
                )
                for length in (run.slice_ns, run.check_slice_ns)
            )
            alone = fixed_rate_ratios(at_load, arm, run.baseline).logs
            if sliced and other and alone and _is_reached(at_load, arm, load):
                yield Row(arm=arm, load=load, alone=alone, sliced=sliced, long_slices=other)


def _is_reached(at_load: ValidTrials, arm: str, load: Load) -> bool:
    """Whether a target alone answers the offered rate."""
    found = [measurement_of(one, arm) for one in at_load.with_arm(TrialKind.FIXED_RATE, arm)]
    rates = [1e9 * one.requests / one.duration_ns for one in found if one is not None]
    return sum(rates) / len(rates) >= REACHED_MIN * (load.rate_rps or 0)


def _mean(logs: Mapping[int, float]) -> Estimate:
    found = estimate.geometric_mean(list(logs.values()))
    assert found is not None, "every row has twenty blocks"
    return found


if __name__ == "__main__":
    sys.stdout.write(table())
