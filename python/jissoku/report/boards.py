"""Boards: the newest cost of every target for which one question was asked."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model.history_answer import Series, SeriesPoint
from jissoku.report.format import load_mark
from jissoku.report.history_text import day, multiple
from jissoku.report.tables import Table

BOARDS_LEAD = (
    "CPU time per request as a multiple of an arm that stays the same. Each table is one question:"
    " workload, rate, class of machine and anchor are the same in all its rows, and different in"
    " every other table."
)

HEADER = ("target", "multiple, newest occasion", "version", "occasions", "newest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Targets with the same workload, load, class of machine and anchor.

    Attributes:
        title: The question; no other board has it.
        series: One per row, the lowest multiple first. The order is no ranking, because only a
            run of both shows whether two rows differ.
    """

    title: str
    series: tuple[Series, ...]

    @property
    def is_of_one_target(self) -> bool:
        """Whether it has nothing to compare."""
        return len(self.series) == 1

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A text per column of `HEADER` for each series."""
        return tuple(_row(one) for one in self.series)

    @property
    def table(self) -> Table:
        """All rows."""
        return Table(header=HEADER, rows=self.rows)


def boards(series: Sequence[Series]) -> tuple[Board, ...]:
    """A board for each question, those with most targets first."""
    found: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        title = (
            f"{one.workload_text}, {load_mark(one.load)}, multiple of {one.anchor}"
            f" ({one.machine_text})"
        )
        found[title].append(one)
    return tuple(
        Board(title=title, series=tuple(sorted(group, key=lambda one: _newest(one).ratio.mean)))
        for title, group in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def _row(one: Series) -> tuple[str, ...]:
    newest = _newest(one)
    return (
        one.arm,
        multiple(newest.ratio),
        newest.version,
        str(len(one.points)),
        day(newest.started_utc),
    )


def _newest(one: Series) -> SeriesPoint:
    return one.points[-1]
