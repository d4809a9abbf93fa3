"""Boards: the newest cost of every target for which one question was asked."""

from collections import Counter, defaultdict
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
        return Table(header=HEADER, rows=self.rows)


def boards(series: Sequence[Series]) -> tuple[Board, ...]:
    """A board for each question, those with most targets first."""
    found: dict[tuple[str, int | None], list[Series]] = defaultdict(list)
    for one in series:
        found[one.question, one.load.rate_rps].append(one)
    groups = [sorted(group, key=lambda one: _newest(one).ratio.mean) for group in found.values()]
    every = [
        Board(title=title, series=tuple(group))
        for title, group in zip(_titles([group[0] for group in groups]), groups, strict=True)
    ]
    return tuple(sorted(every, key=lambda one: (-len(one.series), one.title)))


def _titles(firsts: Sequence[Series]) -> list[str]:
    """A title for each question; those that would be equal say more, and are numbered at last."""
    titles = [
        f"{one.workload_text}, {load_mark(one.load)}, multiple of {one.anchor} ({one.machine_text})"
        for one in firsts
    ]
    counts = Counter(titles)
    titles = [
        f"{title}, {one.anchor_version}, {one.method} trials" if counts[title] > 1 else title
        for title, one in zip(titles, firsts, strict=True)
    ]
    counts, seen = Counter(titles), Counter[str]()
    numbered = []
    for title in titles:
        seen[title] += 1
        numbered.append(f"{title}, {seen[title]}" if counts[title] > 1 else title)
    return numbered


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
