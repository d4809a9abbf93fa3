"""Classes of machines: their software over time, and what disturbed trials there."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jissoku.model.history import IndexedRun, RunRow
from jissoku.model.machine_day import MachineDay
from jissoku.report.history_text import day
from jissoku.report.machine_days import days_table, noise_text
from jissoku.report.sanitize import clean
from jissoku.report.tables import Table
from jissoku.stats.machine_days import latest_noise_floor
from jissoku.ui.library import CheckCount


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineClass:
    """A class of machines, and what is known of it."""

    key: str
    text: str
    runs: int
    first: str
    last: str
    labels: tuple[str, ...]
    software: Table
    checks: Table
    by_day: tuple[MachineDay, ...]

    @property
    def days(self) -> Table:
        """A row for each day, as texts."""
        return days_table(self.by_day)


# Days on the page, the latest ones; all of them are in `jissoku doctor --history`.
DAYS_MAX = 31


def machine_classes(
    runs: Sequence[IndexedRun], checks: Sequence[CheckCount], days: Sequence[MachineDay]
) -> Iterator[MachineClass]:
    """Each class of machines that has a run.

    Args:
        runs: All, earliest first.
        checks: How often each check rejected trials.
        days: All, earliest first.
    """
    by_machine: dict[str, list[RunRow]] = defaultdict(list)
    for run in runs:
        by_machine[run.row.machine].append(run.row)
    for key, rows in by_machine.items():
        trials = sum(row.trials for row in rows)
        yield MachineClass(
            key=key,
            text=rows[-1].machine_text,
            runs=len(rows),
            first=rows[0].started_utc,
            last=rows[-1].started_utc,
            labels=tuple(sorted({row.machine_label for row in rows if row.machine_label})),
            software=_software(rows),
            checks=Table(
                header=("check", "consequence", "trials", f"of {trials:,}"),
                rows=tuple(
                    (one.name, one.outcome, str(one.count), f"{100 * one.count / trials:.1f} %")
                    for one in checks
                    if one.machine == key
                ),
            ),
            by_day=tuple(one for one in days if one.machine == key)[-DAYS_MAX:],
        )


def _software(rows: Sequence[RunRow]) -> Table:
    """A row for each kernel and setting, with the noise floor that was known there."""
    found: dict[tuple[str, ...], list[RunRow]] = defaultdict(list)
    for row in rows:
        found[row.kernel, row.governor, row.turbo, row.clocksource].append(row)
    return Table(
        header=("kernel", "governor", "turbo", "clock", "from (UTC)", "runs", "noise floor"),
        rows=tuple(
            (
                *map(clean, key),
                day(group[0].started_utc),
                str(len(group)),
                noise_text(latest_noise_floor(group)),
            )
            for key, group in found.items()
        ),
    )
