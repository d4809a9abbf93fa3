"""Rejected trials and the noise floor of a machine, day by day, as a table."""

from collections.abc import Sequence

from jissoku.model.machine_day import MachineDay
from jissoku.report.tables import Table

HEADER = ("day (UTC)", "runs", "trials", "rejected", "noise floor", "by check")


def days_table(days: Sequence[MachineDay]) -> Table:
    """A row for each day of one class of machines."""
    return Table(header=HEADER, rows=tuple(map(_row, days)))


def noise_text(noise_floor: float | None) -> str:
    """A noise floor in percent."""
    return "unknown" if noise_floor is None else f"{100 * noise_floor:.2f} %"


def _row(one: MachineDay) -> tuple[str, ...]:
    share = f"{100 * one.rejected / one.trials:.1f} %" if one.trials else "-"
    checks = ", ".join(f"{name} {count}" for name, count in one.checks.items())
    noise = noise_text(one.noise_floor)
    return (one.day, str(one.runs), str(one.trials), share, noise, checks or "-")
