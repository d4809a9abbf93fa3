"""Time slices against each target alone, from the run kept in records/agreement.

Every block of that run measures each target in time slices of two lengths and alone. The table in
records/README.md is made of it; `python -m tests.test_agreement` prints it.
"""

import sys
from functools import cache
from pathlib import Path

from jissoku import records
from jissoku.model import Estimate, Load, Run, TrialKind
from jissoku.stats import estimate
from jissoku.stats.ratio_samples import fixed_rate_ratios
from jissoku.stats.valid_trials import ValidTrials, log_ratios, valid_trials

RECORDS = Path(__file__).parent.parent / "records"
FOLDER = RECORDS / "agreement" / "51"
BEGIN, END = "<!-- agreement -->\n", "<!-- /agreement -->\n"


def test_the_table_is_made_of_the_records() -> None:
    text = (RECORDS / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(BEGIN)
    assert rest.partition(END)[0] == table()


def test_no_interval_of_the_slices_excludes_the_target_alone_by_more_than_a_tenth() -> None:
    """The study's limit: values from time slices are within 10 % of the target alone."""
    for arm, load, sliced, _, alone in _rows():
        assert sliced.low / alone.high <= 1.1, (arm, load.text)
        assert alone.low / sliced.high <= 1.1, (arm, load.text)


def table() -> str:
    """A row per target and load; ratios to the baseline with 95 % intervals."""
    run, _ = _read()
    short, long = (f"{(ns or 0) / 1e6:.0f} ms" for ns in (run.slice_ns, run.check_slice_ns))
    lines = [
        (
            f"| CPU time per request, {run.baseline} = 1 | alone | slices of {short} | / alone"
            f" | slices of {long} | / alone |"
        ),
        "|---" * 6 + "|",
    ]
    for arm, load, sliced, other, alone in _rows():
        cells = [alone.text]
        for one in (sliced, other):
            cells += [one.text, f"{one.value / alone.value:.2f}"]
        lines.append(f"| {arm} at {load.text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@cache
def _read() -> tuple[Run, ValidTrials]:
    run, trials = records.read(FOLDER)
    return run, valid_trials(trials)


def _rows() -> list[tuple[str, Load, Estimate, Estimate, Estimate]]:
    run, trials = _read()
    found = []
    for load in run.loads:
        at_load = trials.at(load)
        for arm in sorted(arm.name for arm in run.arms if arm.name != run.baseline):
            sliced, other = (
                _sliced(at_load.with_slice_length(length), arm, run.baseline)
                for length in (run.slice_ns, run.check_slice_ns)
            )
            logs = list(fixed_rate_ratios(at_load, arm, run.baseline).logs.values())
            alone = estimate.geometric_mean(logs) if logs else None
            if sliced and other and alone:
                found.append((arm, load, sliced, other, alone))
    return found


def _sliced(trials: ValidTrials, arm: str, against: str) -> Estimate | None:
    logs = log_ratios(trials.paired(TrialKind.TIME_SLICED, arm, against), arm, against)
    return estimate.geometric_mean(list(logs.values())) if logs else None


if __name__ == "__main__":
    sys.stdout.write(table())
