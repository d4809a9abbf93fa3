"""`jissoku doctor --history`: what disturbed earlier runs, day by day."""

from pathlib import Path
from typing import Any

import pytest

from jissoku.inference.across_runs import machine_days
from jissoku.measure.machine import busiest
from jissoku.model.history import RunRow
from jissoku.model.updated import updated
from jissoku.report.tables import days_table
from tests.conftest import Run
from tests.history.factories import ROW

DAY_1, DAY_2 = "2026-11-01T23:59:59+00:00", "2026-11-02T00:00:00+00:00"


def row(key: str, started: str, **changes: Any) -> RunRow:
    facts: dict[str, Any] = {"run": key, "started_utc": started, "trials": 40, "trials_rejected": 0}
    return updated(ROW, **(facts | changes))


def test_days_are_counted_by_class_of_machines() -> None:
    runs = [
        row("a", DAY_1, trials_rejected=3, noise_floor=0.004),
        row("b", DAY_1, trials_rejected=1, noise_floor=None),
        row("c", DAY_1, machine="other", trials=0, noise_floor=None),
        row("d", DAY_2, noise_floor=None),
    ]
    found = list(machine_days(runs, [("a", "drift", 1), ("a", "cpu", 2), ("b", "drift", 1)]))
    assert days_table(found).rows == (
        ("2026-11-01", "2", "80", "5.0 %", "0.40 %", "cpu 2, drift 2"),
        ("2026-11-01", "1", "0", "-", "unknown", "-"),
        ("2026-11-02", "1", "40", "0.0 %", "unknown", "-"),
    )


def test_programs_are_named_by_what_they_use_now() -> None:
    before = {(1, 1.0): ("init", 900.0), (7, 2.0): ("cc", 4.0), (8, 2.5): ("worker", 1.0)}
    new = {(9, 3.0): ("cc", 0.3), (10, 3.1): ("ld", 0.4)}
    after = before | new | {(7, 2.0): ("cc", 4.2), (8, 2.5): ("worker-flush", 1.1)}
    assert busiest(before, after) == ["cc", "ld", "worker-flush"]
    reused = {(7, 5.0): ("sh", 0.1)}
    assert busiest(before, reused) == ["sh"], "another process with the ID of one that ended"


@pytest.mark.slow
def test_kept_records_have_days(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    records = Path(__file__).parents[2] / "records" / "repeatability"
    done = run(["doctor", "--history", "--records", str(records)], tmp_path)
    assert done.returncode == 0, done.stderr
    machine, head, *days = done.stdout.splitlines()
    assert "2 cores" in machine
    assert head.split()[:2] == ["day", "(UTC)"]
    assert [line.split()[1] for line in days] == ["5"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--records", "."], "--records needs --history"),
        (["--history", "--records", "nowhere"], "nowhere"),
        (["--history"], "runs is not a folder"),
    ],
)
def test_wrong_options_are_bad_input(
    options: list[str], sentence: str, run: Run, tmp_path: Path
) -> None:
    done = run(["doctor", *options], tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
