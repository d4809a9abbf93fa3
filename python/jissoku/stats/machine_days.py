"""What disturbed trials on a class of machines, day by day."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from jissoku.model.history import RunRow
from jissoku.model.machine_day import MachineDay

DAY_LENGTH = len("2026-11-23")


def machine_days(
    runs: Sequence[RunRow], rejections: Sequence[tuple[str, str, int]]
) -> Iterator[MachineDay]:
    """Each day and class of machines that has a run, earliest first.

    Args:
        runs: All, earliest first.
        rejections: Key of a run, name of a check, and how many of the run's trials it rejected.
    """
    by_day: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for row in runs:
        by_day[row.started_utc[:DAY_LENGTH], row.machine].append(row)
    by_run: dict[str, Counter[str]] = defaultdict(Counter)
    for run, check, count in rejections:
        by_run[run][check] += count
    for (day, machine), rows in by_day.items():
        checks = sum((by_run[row.run] for row in rows), Counter[str]())
        yield MachineDay(
            machine=machine,
            machine_text=rows[-1].machine_text,
            day=day,
            runs=len(rows),
            trials=sum(row.trials for row in rows),
            rejected=sum(row.trials_rejected for row in rows),
            checks=dict(sorted(checks.items(), key=lambda one: (-one[1], one[0]))),
            noise_floor=latest_noise_floor(rows),
        )


def latest_noise_floor(rows: Sequence[RunRow]) -> float | None:
    """That of the last run, of those that are earliest first, for which one was known."""
    known = [row.noise_floor for row in rows if row.noise_floor is not None]
    return known[-1] if known else None
