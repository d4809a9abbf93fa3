"""The runs on the pages: the index over their records, updated periodically."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from jissoku.errors import InputError
from jissoku.inference.series import machine_ratios
from jissoku.measure.history import FoundRuns, History, open_history
from jissoku.model.history import IndexedRun, MachineDay, MachineRatio, RunDifference, Series
from jissoku.records.experiment import is_experiment, is_finished
from jissoku.ui.indexer import Indexer, Indexing
from jissoku.ui.runs_table import ListedRun, listed_run

# Seconds between two reads of the folders, at least; they are read when a page is requested.
REFRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class CheckCount:
    """Number of trials of a class of machines that failed a check."""

    machine: str
    name: str
    outcome: str
    count: int


class Library:
    """Runs below some folders; its methods may be called from several threads."""

    def __init__(
        self, roots: Sequence[Path], cache: Path | None = None, indexer: Indexer | None = None
    ) -> None:
        """Nothing is read yet.

        Args:
            roots: Folders of runs; a missing one has none.
            cache: Folder of the index; default: the user's cache.
            indexer: Adds new runs to the index; None: they are added when runs are asked for.
        """
        self.roots = tuple(roots)
        self._cache = cache
        self._indexer = indexer
        self._parts = 0
        self._lock = Lock()
        self._history: History | None = None
        self._looked: float | None = None
        self._listed: tuple[tuple[IndexedRun, ...], tuple[ListedRun, ...]] | None = None
        self.notes: tuple[str, ...] = ()

    def left(self) -> Indexing | None:
        """Which runs are not among those that the other methods return; None: all are."""
        return self._indexer.left() if self._indexer else None

    def headers(self) -> tuple[IndexedRun, ...]:
        """All runs, earliest first, without their measurements."""
        with self._lock:
            found = self._refreshed()
            return found.headers() if found else ()

    def listed(self) -> tuple[ListedRun, ...]:
        """All runs, earliest first, with the text of lists and searches, computed once for each."""
        headers = self.headers()
        with self._lock:
            if self._listed is None or self._listed[0] is not headers:
                self._listed = headers, tuple(map(listed_run, headers))
            return self._listed[1]

    def targets(self) -> tuple[str, ...]:
        with self._lock:
            found = self._refreshed()
            return found.targets() if found else ()

    def run(self, key: str) -> IndexedRun:
        """A run by its whole key; one that has just ended is looked for at once.

        Raises:
            KeyError: There is none.
        """
        try:
            return next_or_key_error(self.headers(), key)
        except KeyError:
            with self._lock:
                self._looked = None
                self._refreshed()
                if self._indexer is not None:
                    self._indexer.index_now(key)
            return next_or_key_error(self.headers(), key)

    def difference(self, first: str, second: str) -> RunDifference:
        """Compares two runs relative to arms that are the same program in both.

        Raises:
            KeyError: There is no run of a key.
        """
        with self._lock:
            found = self._refreshed()
            if found is None:
                raise KeyError(first)
            return found.difference(first, second)

    def series(self, target: str) -> tuple[Series, ...]:
        """A target's cost over time, a series for each question."""
        with self._lock:
            found = self._refreshed()
            return found.series(target) if found else ()

    def machine_ratios(self, series: Sequence[Series]) -> tuple[MachineRatio, ...]:
        """A target on each class of machines."""
        return machine_ratios(series)

    def checks(self) -> tuple[CheckCount, ...]:
        """Which checks rejected trials, by class of machines, most often first."""
        query = (
            "SELECT machine, name, outcome, count(*) FROM checks JOIN runs USING (run)"
            " GROUP BY machine, name, outcome ORDER BY count(*) DESC, machine, name, outcome"
        )
        with self._lock:
            rows = self._rows(query)
        return tuple(CheckCount(*row) for row in rows)

    def machine_days(self) -> tuple[MachineDay, ...]:
        """What disturbed trials, by day and class of machines, earliest first."""
        with self._lock:
            found = self._refreshed()
            return found.machine_days() if found else ()

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query finds. The lock is held."""
        found = self._refreshed()
        if found is None:
            return []
        with found.reading():
            return found.session.execute(query, list(values)).fetchall()

    def _refreshed(self) -> History | None:
        """The index, up to date but for runs that are being indexed; None if there is no run.

        The lock is held.
        """
        if not self._is_current():
            self._looked = time.monotonic()
            roots = [root for root in self.roots if root.is_dir()]
            try:
                self._history = self._opened(roots) if roots else None
                self.notes = self._history.broken if self._history else ()
                if self._indexer is not None and self._indexer.problem:
                    self.notes += (self._indexer.problem,)
            except InputError as error:
                self._history, self.notes = None, (str(error),)
        return self._history

    def _is_current(self) -> bool:
        if self._looked is None or (self._history is not None and self._history.is_damaged):
            return False
        is_complete = self._indexer is None or self._indexer.parts == self._parts
        return is_complete and time.monotonic() - self._looked < REFRESH_S

    def _opened(self, roots: Sequence[Path]) -> History:
        if self._indexer is None:
            return open_history(roots, lambda _: None, self._cache, self._history)
        parts = self._indexer.parts
        found = FoundRuns(roots, self._cache, self._history)
        self._indexer.request({key: found.present[key][0] for key in found.new()}, parts)
        for key, reason in self._indexer.broken.items():
            found.leave_out(key, reason)
        self._parts = self._indexer.parts
        if self._indexer.left() is None and not self._indexer.problem:
            found.check_any()
        return found.opened()


def next_or_key_error(runs: Sequence[IndexedRun], key: str) -> IndexedRun:
    """The run of a key.

    Raises:
        KeyError: There is none.
    """
    for run in runs:
        if run.row.run == key:
            return run
    raise KeyError(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundExperiment:
    """An experiment with its runs.

    Attributes:
        runs: Earliest first; the key of the first one is its address.
    """

    folder: Path
    name: str
    runs: tuple[IndexedRun, ...]
    is_finished: bool

    @property
    def url(self) -> str:
        return f"/runs/{self.runs[0].row.run}/experiment"


def experiment_folder(run: IndexedRun) -> Path | None:
    above = Path(run.folder).parent
    return above if is_experiment(above) else None


def found_experiments(runs: Sequence[IndexedRun]) -> tuple[FoundExperiment, ...]:
    """Every experiment of some runs, newest first.

    Args:
        runs: Earliest first.
    """
    by_folder: dict[Path, list[IndexedRun]] = {}
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
