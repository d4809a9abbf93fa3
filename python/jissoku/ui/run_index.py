"""The runs on the pages: the index over their records, updated behind them, and lists of runs.

Nothing is indexed while a measurement runs on this machine, also between its loads: a run takes 0.2
s, which would reach into the next one.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Self, TypeVar
from urllib.parse import urlencode

from jissoku.errors import InputError, JissokuError
from jissoku.measure.history import FoundRuns, History, index_in, rows_of
from jissoku.model import history as model
from jissoku.records.run_folder import is_experiment, is_finished
from jissoku.report.history import shown_arms
from jissoku.system.background import enter_idle_class
from jissoku.system.measurement_lock import is_measuring
from jissoku.ui.analyses import Analysis, found_analyses

Found = TypeVar("Found")

# Seconds for which a page waits for runs that it sees for the first time: one is indexed in 0.2.
WAIT_S = 1.0

# Seconds after which the runs that were read become a part of the index, and pages show them.
PART_S = 2.0

# Seconds between two looks whether a measurement has ended.
LOOK_S = 2.0

# Of the end of the thread; what it has read and not written is read again the next time.
END_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Indexing:
    """How many runs are left to be indexed, and whether a measurement has paused that."""

    count: int
    is_paused: bool

    @property
    def sentence(self) -> str:
        runs, they = f"{self.count} runs are", "they are"
        if self.count == 1:
            runs, they = "1 run is", "it is"
        if self.is_paused:
            after = "when the measurement on this machine has ended"
            return f"{runs} not shown: {they} indexed {after}."
        return f"{runs} being indexed, and not shown yet."


class Indexer:
    """A thread that indexes runs. As a context manager it ends with the block.

    The index has more runs after each of the `parts`. `broken` says by key why records cannot be
    read; it is replaced, never changed. `problem` is why the index cannot be written.
    """

    def __init__(self, cache: Path | None, *, is_background: bool = False) -> None:
        """`cache` is the folder of the index; `is_background`: the thread is in the idle class."""
        self._cache = cache
        self._is_background = is_background
        self._changed = Condition()
        self._waiting: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        self._written: dict[str, int] = {}
        self.parts = 0
        self.problem = ""
        self._is_ending = False
        self._thread = Thread(target=self._run, name="indexer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread after the run that it reads."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join(END_LIMIT_S)

    def left(self) -> Indexing | None:
        """What is left to be indexed; None: nothing."""
        count = len(self._waiting)
        return Indexing(count, is_measuring()) if count else None

    def request(self, runs: Mapping[str, str], parts: int) -> None:
        """Says which runs are to be indexed, and waits a moment for those that are new among them.

        `runs` replaces those of earlier requests. `parts` were written before the caller looked:
        runs of a later one are in the index.
        """
        with self._changed:
            self.broken = {key: why for key, why in self.broken.items() if key in runs}
            self._written = {key: part for key, part in self._written.items() if part > parts}
            done = self.broken.keys() | self._written.keys()
            waiting = {key: folder for key, folder in runs.items() if key not in done}
            has_new = bool(waiting.keys() - self._waiting.keys())
            self._waiting, self.problem = waiting, ""
            self._changed.notify_all()
            if has_new and not is_measuring():
                self._changed.wait_for(lambda: not self._waiting or self._is_ending, WAIT_S)

    def index_now(self, key: str) -> None:
        """Indexes one of the requested runs in this thread, whatever else is to be done."""
        with self._changed:
            folder = self._waiting.get(key)
        if folder is not None and (rows := self._rows(key, folder)) is not None:
            index_in(self._cache).add([rows])
            self._note_part([key])

    def _run(self) -> None:
        if self._is_background:
            enter_idle_class()
        index = index_in(self._cache)
        while not self._is_ending:
            rows = self._some_rows()
            self._pause()
            if not rows or self._is_ending:
                continue
            try:
                index.add(list(rows.values()))
                self._note_part(rows)
            except JissokuError as error:
                with self._changed:
                    self.problem = str(error)
                    self._waiting.clear()
                    self._changed.notify_all()

    def _some_rows(self) -> dict[str, model.RunRows]:
        """Waits for a request; by key the rows of its next runs."""
        found: dict[str, model.RunRows] = {}
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending)
        end = time.monotonic() + PART_S
        while True:
            # Before the choice: records grow while they are measured, and are then other runs.
            self._pause()
            with self._changed:
                key = next((one for one in self._waiting if one not in found), "")
                folder = self._waiting.get(key, "")
            if self._is_ending or not key:
                return found
            if (rows := self._rows(key, folder)) is not None:
                found[key] = rows
            if time.monotonic() >= end:
                return found

    def _rows(self, key: str, folder: str) -> model.RunRows | None:
        """The rows of a run; none if its records cannot be read, which is noted."""
        try:
            return rows_of(key, folder)
        except InputError as error:
            with self._changed:
                if self._waiting.pop(key, None) is not None:
                    self.broken = self.broken | {key: str(error)}
                self._changed.notify_all()
            return None

    def _note_part(self, keys: Iterable[str]) -> None:
        with self._changed:
            for key in keys:
                self._waiting.pop(key, None)
                self._written[key] = self.parts + 1
            self.parts += 1
            self._changed.notify_all()

    def _pause(self) -> None:
        while not self._is_ending and is_measuring():
            with self._changed:
                self._changed.wait_for(lambda: self._is_ending, LOOK_S)


# A list of runs is filtered, sorted and cut into pages; its whole state is in the URL.
PAGE_ROWS = 50

# Commands with several runs for one answer, which are listed together.
SERIES = {"tune", "bisect"}


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with its arms, and everything that a search looks at, in lower case."""

    run: model.IndexedRun
    arms: str
    searched: str

    @property
    def row(self) -> model.RunRow:
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
    """What a list shows: runs with all words of the text, by a column of `SORTS`, after a key."""

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

    `runs` are one of each row; `others` by the key of such a run those of its row, by name of their
    folders. The next page begins after the key `next_after`, which is empty on the last one.
    """

    runs: tuple[model.IndexedRun, ...]
    others: Mapping[str, Mapping[str, model.IndexedRun]]
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
    groups: dict[str, list[model.IndexedRun]] = {}
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


def listed_run(run: model.IndexedRun) -> ListedRun:
    row, arms = run.row, shown_arms(run)
    parts = (arms, row.workload_text, row.headline, row.labels, row.experiment)
    return ListedRun(run, arms, " ".join((*parts, run.folder, row.run)).lower())


# Seconds between two reads of the folders, at least; they are read when a page is requested.
REFRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class CheckCount:
    machine: str
    name: str
    outcome: str
    count: int


class RunIndex:
    """Runs below some folders; its methods may be called from several threads."""

    def __init__(self, roots: Sequence[Path], cache: Path | None, indexer: Indexer) -> None:
        """`indexer` adds new runs when runs are asked for; `cache` is its folder."""
        self.roots = tuple(roots)
        self._cache = cache
        self._indexer = indexer
        self._parts = 0
        self._lock = Lock()
        self._history: History | None = None
        self._looked: float | None = None
        self._listed: tuple[tuple[model.IndexedRun, ...], tuple[ListedRun, ...]] | None = None
        self.notes: tuple[str, ...] = ()

    def analyses(self) -> list[Analysis]:
        """Explanations, tunings and profiles, newest first."""
        return found_analyses(self.roots, self._cache)

    def left(self) -> Indexing | None:
        """Which runs are not among those that the other methods return; None: all are."""
        return self._indexer.left()

    def headers(self) -> tuple[model.IndexedRun, ...]:
        """All runs, earliest first, without their measurements."""
        return self._ask(History.headers, ())

    def listed(self) -> tuple[ListedRun, ...]:
        """All runs, earliest first, with the text of lists and searches, computed once for each."""
        headers = self.headers()
        with self._lock:
            if self._listed is None or self._listed[0] is not headers:
                self._listed = headers, tuple(map(listed_run, headers))
            return self._listed[1]

    def targets(self) -> tuple[str, ...]:
        return self._ask(History.targets, ())

    def all_series(self) -> list[model.Series]:
        return [one for name in self.targets() for one in self.series(name)]

    def run(self, key: str) -> model.IndexedRun:
        """A run by its whole key, or KeyError; one that has just ended is looked for at once."""
        if (found := self._known(key)) is None:
            with self._lock:
                self._looked = None
                self._refreshed()
                self._indexer.index_now(key)
            found = self._known(key)
        if found is None:
            raise KeyError(key)
        return found

    def _known(self, key: str) -> model.IndexedRun | None:
        return next((run for run in self.headers() if run.row.run == key), None)

    def difference(self, first: str, second: str) -> model.RunDifference:
        """Compares two runs through arms that are the same program in both, or raises KeyError."""
        found = self._ask(lambda history: history.difference(first, second), None)
        if found is None:
            raise KeyError(first)
        return found

    def series(self, target: str) -> tuple[model.Series, ...]:
        return self._ask(lambda history: history.series(target), ())

    def checks(self) -> tuple[CheckCount, ...]:
        """Which checks rejected trials, by class of machines, most often first."""
        query = (
            "SELECT machine, name, outcome, count(*) FROM checks JOIN runs USING (run)"
            " GROUP BY machine, name, outcome ORDER BY count(*) DESC, machine, name, outcome"
        )

        def counts(history: History) -> tuple[CheckCount, ...]:
            with history.reading():
                return tuple(CheckCount(*row) for row in history.session.execute(query))

        return self._ask(counts, ())

    def _ask(self, question: Callable[[History], Found], otherwise: Found) -> Found:
        """What the index answers; `otherwise` if there is no run."""
        with self._lock:
            history = self._refreshed()
            return otherwise if history is None else question(history)

    def machine_days(self) -> tuple[model.MachineDay, ...]:
        return self._ask(History.machine_days, ())

    def _refreshed(self) -> History | None:
        """The index, up to date but for runs that are being indexed; the lock is held."""
        if not self._is_current():
            self._looked = time.monotonic()
            roots = [root for root in self.roots if root.is_dir()]
            try:
                self._history = self._opened(roots) if roots else None
                self.notes = self._history.broken if self._history else ()
                if self._indexer.problem:
                    self.notes += (self._indexer.problem,)
            except InputError as error:
                self._history, self.notes = None, (str(error),)
        return self._history

    def _is_current(self) -> bool:
        if self._looked is None or (self._history is not None and self._history.is_damaged):
            return False
        is_complete = self._indexer.parts == self._parts
        return is_complete and time.monotonic() - self._looked < REFRESH_S

    def _opened(self, roots: Sequence[Path]) -> History:
        parts = self._indexer.parts
        found = FoundRuns(roots, self._cache, self._history)
        self._indexer.request({key: found.present[key][0] for key in found.new()}, parts)
        for key, reason in self._indexer.broken.items():
            found.leave_out(key, reason)
        self._parts = self._indexer.parts
        if self._indexer.left() is None and not self._indexer.problem:
            found.check_any()
        return found.opened()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundExperiment:
    """An experiment with its runs, earliest first; the key of the first one is its address."""

    folder: Path
    name: str
    runs: tuple[model.IndexedRun, ...]
    is_finished: bool

    @property
    def url(self) -> str:
        return f"/runs/{self.runs[0].row.run}/experiment"


def experiment_folder(run: model.IndexedRun) -> Path | None:
    above = Path(run.folder).parent
    return above if is_experiment(above) else None


def found_experiments(runs: Sequence[model.IndexedRun]) -> tuple[FoundExperiment, ...]:
    """Every experiment of some runs, newest first; `runs` are earliest first."""
    by_folder: dict[Path, list[model.IndexedRun]] = {}
    for run in runs:
        by_folder.setdefault(Path(run.folder).parent, []).append(run)
    return tuple(
        FoundExperiment(
            folder=folder,
            name=found[0].row.experiment or folder.name,
            runs=tuple(found),
            is_finished=is_finished(folder),
        )
        for folder, found in reversed(by_folder.items())
        if is_experiment(folder)
    )
