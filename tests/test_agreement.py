"""Time slices against each target alone, from the runs kept in records/agreement.

In run 72 every block starts each target anew, for time slices of two lengths and for itself alone.
In run 73 (tests/agreement_study.py) both are measured on the same start. The tables in
records/README.md are made of them; `python -m tests.test_agreement` prints them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jissoku import records
from jissoku.inference import estimate
from jissoku.inference.blocks import (
    ValidTrials,
    fixed_rate_ratios,
    log_cost,
    log_differences,
    log_ratios,
    measurement_of,
    valid_trials,
)
from jissoku.model import Estimate, Load, LoadLevel, Run, TrialKind
from tests import records_table

RECORDS = Path(__file__).parent.parent / "records"
OWN_STARTS = RECORDS / "agreement" / "72"
SAME_START = RECORDS / "agreement" / "73"

# Of the offered rate, which a target has to answer alone: its cost applies to another rate else.
REACHED_MIN = 0.95

# In run 72 nginx alone at the medium load is steady up to this block, and not from it on.
UNSTEADY_FROM = 9


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


def test_the_tables_are_made_of_the_records() -> None:
    readme = RECORDS / "README.md"
    for name, table in TABLES.items():
        assert records_table.fill(readme, name, table()) == readme.read_text("utf-8"), name


def test_no_interval_of_the_slices_excludes_the_target_alone_by_more_than_a_tenth() -> None:
    """The study's limit: values from time slices are within 10 % of the target alone."""
    for row in _rows(OWN_STARTS):
        for sliced in (row.sliced, row.long_slices):
            bias = row.bias(sliced)
            assert bias.low <= 1.1, (row.arm, row.load.text)
            assert bias.high >= 1 / 1.1, (row.arm, row.load.text)


def test_slices_agree_with_the_target_alone_at_the_heavy_load() -> None:
    """The load at which single targets vary least between starts, by 2 to 3 %."""
    heavy = [row for row in _rows(OWN_STARTS) if row.load.level is LoadLevel.HEAVY]
    assert len(heavy) == 5
    for row in heavy:
        for sliced in (row.sliced, row.long_slices):
            assert abs(row.bias(sliced).value - 1) <= 0.035, row.arm


def test_slices_do_not_contradict_the_target_alone_on_the_same_start() -> None:
    """At the level at which, by chance, any interval excludes 1 in a twentieth of studies."""
    found = list(_rows(SAME_START))
    assert {row.load.level for row in found} >= {LoadLevel.LIGHT, LoadLevel.MEDIUM, LoadLevel.HEAVY}
    for row in found:
        logs = list(log_differences(row.sliced, row.alone).values())
        quotient = estimate.as_ratio(estimate.t_interval(logs, 1 - 0.05 / len(found)), logs)
        assert quotient.low <= 1 <= quotient.high, (row.arm, row.load.text)


def own_starts_table() -> str:
    """A row per target and load: ratios to the baseline, and quotients of these, with intervals."""
    run, _ = _read(OWN_STARTS)
    short, long = (f"{(ns or 0) / 1e6:.0f} ms" for ns in (run.slice_ns, run.check_slice_ns))
    head = ("alone", f"slices of {short}", "/ alone", f"slices of {long}", "/ alone")
    lines = []
    for row in _rows(OWN_STARTS):
        cells = [f"{row.arm} at {row.load.text}", _mean(row.alone).text]
        for one in (row.sliced, row.long_slices):
            cells += [_mean(one).text, row.bias(one).text]
        lines.append(cells)
    return records_table.table_of((_subject(run), *head), lines)


def same_start_table() -> str:
    """The same of the second run, which has slices of one length."""
    run, _ = _read(SAME_START)
    lines = []
    for row in _rows(SAME_START):
        bias = row.bias(row.sliced)
        ratios = (_mean(row.alone).text, _mean(row.sliced).text, bias.text)
        lines.append((f"{row.arm} at {row.load.text}", *ratios, str(bias.blocks)))
    head = (_subject(run), "alone", "time slices", "/ alone", "starts")
    return records_table.table_of(head, lines)


def parts_table() -> str:
    """The medium load of the first run, before and after the machine became unsteady."""
    run, trials = _read(OWN_STARTS)
    medium = next(load for load in run.loads if load.level is LoadLevel.MEDIUM)
    parts: dict[str, Callable[[int], bool]] = {
        f"blocks 1 to {UNSTEADY_FROM}": lambda block: block < UNSTEADY_FROM,
        f"blocks {UNSTEADY_FROM + 1} to 20": lambda block: block >= UNSTEADY_FROM,
    }
    quotients = {
        f"CPU time per request of {run.baseline} itself": _cost_quotients(run, trials.at(medium))
    }
    for row in _rows(OWN_STARTS):
        if row.load == medium:
            quotients[f"ratio of {row.arm} to it"] = log_differences(row.sliced, row.alone)
    lines = [
        [
            name,
            *(
                _mean({b: log for b, log in logs.items() if chosen(b)}).text
                for chosen in parts.values()
            ),
        ]
        for name, logs in quotients.items()
    ]
    return records_table.table_of((f"slices / alone at {medium.text}", *parts), lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "agreement": own_starts_table,
    "agreement parts": parts_table,
    "agreement on the same start": same_start_table,
}


def _subject(run: Run) -> str:
    return f"CPU time per request, {run.baseline} = 1"


def _cost_quotients(run: Run, at_load: ValidTrials) -> Mapping[int, float]:
    """The baseline's cost in slices divided by that alone, by block, as natural logarithms."""
    sliced = at_load.with_slice_length(run.slice_ns).paired(TrialKind.TIME_SLICED, run.baseline)
    alone = at_load.of(TrialKind.FIXED_RATE, run.baseline)
    return log_differences(
        *(
            {block: log_cost(trial, run.baseline) for block, trial in found.items()}
            for found in (sliced, alone)
        )
    )


@cache
def _read(folder: Path) -> tuple[Run, ValidTrials]:
    run, trials = records.read(folder)
    return run, valid_trials(trials)


def _rows(folder: Path) -> Iterator[Row]:
    run, trials = _read(folder)
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
            if sliced and alone and _is_reached(at_load, arm, load):
                yield Row(arm=arm, load=load, alone=alone, sliced=sliced, long_slices=other)


def _is_reached(at_load: ValidTrials, arm: str, load: Load) -> bool:
    """Whether a target alone answers the offered rate."""
    found = [measurement_of(one, arm) for one in at_load.with_arm(TrialKind.FIXED_RATE, arm)]
    rates = [1e9 * one.requests / one.duration_ns for one in found if one is not None]
    return sum(rates) / len(rates) >= REACHED_MIN * (load.rate_rps or 0)


def _mean(logs: Mapping[int, float]) -> Estimate:
    found = estimate.geometric_mean(list(logs.values()))
    assert found is not None, "every row has blocks"
    return found


if __name__ == "__main__":
    for name, table in TABLES.items():
        sys.stdout.write(f"<!-- {name} -->\n{table()}\n")
