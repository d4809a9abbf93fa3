"""The list of runs: filtered, sorted and cut into pages, with its whole state in the URL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from jissoku.model.history import IndexedRun, RunRow
from jissoku.report.history import shown_arms

PAGE_ROWS = 50

# Commands with several runs for one answer, which are listed together.
SERIES = {"tune", "bisect"}


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with its arms, and everything that a search looks at, in lower case."""

    run: IndexedRun
    arms: str
    searched: str

    @property
    def row(self) -> RunRow:
        return self.run.row

    @property
    def group(self) -> str:
        """The folder of the runs of one tuning or bisection; of another run its key."""
        return str(Path(self.run.folder).parent) if self.row.verb in SERIES else self.row.run


# Columns that a list can be sorted by.
SORTS: Mapping[str, Callable[[ListedRun], object]] = {
    "started": lambda one: one.row.started_utc,
    "command": lambda one: one.row.verb,
    "targets": lambda one: one.arms.lower(),
    "trials": lambda one: one.row.trials,
    "rejected": lambda one: one.row.trials_rejected,
    "proven": lambda one: one.row.verdicts,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """What a list shows; its runs have all words of the text.

    Attributes:
        machine: Key of a class of machines; empty: all.
        sort: A column of `SORTS`.
        after: Key of the run that the page begins after; empty: the first page.
    """

    text: str = ""
    command: str = ""
    machine: str = ""
    sort: str = "started"
    is_ascending: bool = False
    after: str = ""

    @property
    def url(self) -> str:
        values = {
            "text": self.text,
            "command": self.command,
            "machine": self.machine,
            "sort": "" if self.sort == "started" else self.sort,
            "order": "up" if self.is_ascending else "",
            "after": self.after,
        }
        given = {name: value for name, value in values.items() if value}
        return f"/?{urlencode(given)}" if given else "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of the list, and the count of runs that the query finds on all pages.

    Attributes:
        runs: One of each row.
        others: By the key of such a run the others of its row, by name of their folders.
        next_after: The key that the next page begins after; empty on the last one.
    """

    runs: tuple[IndexedRun, ...]
    others: Mapping[str, Mapping[str, IndexedRun]]
    count: int
    next_after: str


def read_query(values: Mapping[str, str]) -> RunQuery:
    """The query of an address; what is unknown is left out."""
    sort = values.get("sort", "started")
    return RunQuery(
        text=values.get("text", "").strip()[:200],
        command=values.get("command", "")[:40],
        machine=values.get("machine", "")[:40],
        sort=sort if sort in SORTS else "started",
        is_ascending=values.get("order") == "up",
        after=values.get("after", "")[:80],
    )


def runs_found(runs: Sequence[ListedRun], query: RunQuery) -> list[ListedRun]:
    """The runs that a query finds, in its order, of all pages; `runs` are all, earliest first."""
    words = query.text.lower().split()
    found = [
        one
        for one in runs
        if query.command in {"", one.row.verb}
        and query.machine in {"", one.row.machine}
        and all(word in one.searched for word in words)
    ]
    # Equal ones keep the order of time, or its reverse.
    if query.sort != "started":
        found.sort(key=lambda one: (SORTS[query.sort](one),))
    if not query.is_ascending:
        found.reverse()
    return found


def page_of(found: Sequence[ListedRun], query: RunQuery) -> RunPage:
    """The part of the runs found that a page shows. A key that is gone leads to the first page."""
    groups: dict[str, list[IndexedRun]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(one.run)
    rows = list(groups.values())
    places = {run.row.run: index for index, row in enumerate(rows) for run in row}
    first = places.get(query.after, -1) + 1
    shown = rows[first : first + PAGE_ROWS]
    is_last = first + PAGE_ROWS >= len(rows)
    return RunPage(
        runs=tuple(row[0] for row in shown),
        others={row[0].row.run: {Path(one.folder).name: one for one in row[1:]} for row in shown},
        count=len(found),
        next_after="" if is_last else shown[-1][0].row.run,
    )


def listed_run(run: IndexedRun) -> ListedRun:
    row, arms = run.row, shown_arms(run)
    parts = (arms, row.workload_text, row.headline, row.labels, row.experiment)
    return ListedRun(run, arms, " ".join((*parts, run.folder, row.run)).lower())
