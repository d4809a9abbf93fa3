"""From folders of records to the index of runs, and to comparisons across runs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from jissoku import records
from jissoku.errors import InputError, JissokuError
from jissoku.history import queries
from jissoku.history.folders import FolderCache
from jissoku.history.index import HistoryIndex
from jissoku.model.history import IndexedRun, RunRows
from jissoku.model.history_answer import RunDifference, Series, Tau
from jissoku.model.machine_day import MachineDay
from jissoku.model.updated import updated
from jissoku.records.find import find_runs
from jissoku.stats.machine_days import machine_days
from jissoku.stats.occasions import (
    Occasion,
    first_of_occasions,
    observed_tau,
    occasions,
    started,
    tau_of_neighbours,
)
from jissoku.stats.run_difference import run_difference
from jissoku.stats.run_rows import REVISION, run_rows
from jissoku.stats.series_points import series_plans
from jissoku.stats.target_history import finished_series, planned_series
from jissoku.targets.build_paths import default_cache

Present = dict[str, tuple[str, str]]

# Runs per part, so that an interrupted indexing continues where it stopped.
BATCH = 50


@dataclass(frozen=True, slots=True)
class State:
    """What an index was opened over.

    Attributes:
        present: By key of a run its folder, and why it is unfinished.
        parts: Names of the parts of the index.
        broken: Folders whose records cannot be read, a sentence each.
    """

    present: Present
    parts: tuple[str, ...]
    broken: tuple[str, ...]


class History:
    """An open index. What is computed from all runs is kept, so that a second question is fast.

    Attributes:
        session: The database in memory, with the runs that were found.
        cache: The folder of the index.
        state: Its input.
    """

    def __init__(
        self,
        session: duckdb.DuckDBPyConnection,
        cache: Path,
        state: State,
        before: "History | None" = None,
    ) -> None:
        """`before` is a history of other runs: headers that it has read are not read again."""
        self.session = session
        self.cache = cache
        self.state = state
        self._before = before.headers_read if before else {}
        self._headers: tuple[IndexedRun, ...] | None = None
        self._by_key: dict[str, IndexedRun] = {}
        self._occasions: tuple[Occasion, ...] | None = None
        self._taus: dict[str, Tau] = {}
        self._series: dict[str, tuple[Series, ...]] = {}

    @property
    def broken(self) -> tuple[str, ...]:
        """Folders whose records cannot be read, a sentence each."""
        return self.state.broken

    @property
    def headers_read(self) -> Mapping[str, IndexedRun]:
        """By key the headers that were read so far: all, or none."""
        return self._by_key

    def runs(self) -> tuple[IndexedRun, ...]:
        """All runs, earliest first, with all their measurements: for few runs."""
        headers = self.headers()
        with _whole():
            logs = queries.logs_of(self.session, self._by_key)
        return tuple(updated(run, logs=logs.get(run.row.run, {})) for run in headers)

    def headers(self) -> tuple[IndexedRun, ...]:
        """All runs, earliest first, without their measurements; read once."""
        if self._headers is None:
            self._headers = self._read_headers()
            self._by_key = {run.row.run: run for run in self._headers}
            self._before = {}
        return self._headers

    def targets(self) -> tuple[str, ...]:
        """Every target that has a run, by name."""
        with _whole():
            return queries.targets(self.session)

    def series(self, target: str) -> tuple[Series, ...]:
        """A target's cost over time, a series for each question; computed once."""
        if target not in self._series:
            self._series[target] = self._read_series(target)
        return self._series[target]

    def machine_days(self) -> tuple[MachineDay, ...]:
        """What disturbed trials, by day and class of machines, earliest first."""
        rows = [run.row for run in self.headers()]
        with _whole():
            return tuple(machine_days(rows, queries.rejections(self.session)))

    def difference(self, first: str, second: str) -> RunDifference:
        """Compares two runs, given by key, relative to arms that are the same program in both.

        Raises:
            KeyError: There is no run of a key.
        """
        self.headers()
        earlier, later = sorted((self._by_key[first], self._by_key[second]), key=started)
        tau = self.tau(later.row.machine)
        measured = self._measured({first, second})
        return run_difference(measured[earlier.row.run], measured[later.row.run], tau)

    def tau(self, machine: str) -> Tau:
        """Rule 4, of a class of machines; computed once."""
        if machine not in self._taus:
            like = [found for found in self.occasions() if found[0].row.machine == machine]
            groups = first_of_occasions(like)
            keys = {run.row.run for group in groups for run in group}
            with _whole():
                means = queries.means_of(self.session, keys)
            self._taus[machine] = tau_of_neighbours(
                [updated(run, means=means.get(run.row.run, {})) for run in group]
                for group in groups
            )
        return self._taus[machine]

    def occasions(self) -> tuple[Occasion, ...]:
        """All runs by occasion, without their measurements; grouped once."""
        if self._occasions is None:
            self._occasions = occasions(self.headers())
        return self._occasions

    def _read_series(self, target: str) -> tuple[Series, ...]:
        plans = series_plans(self.occasions(), target)
        arms = {plan.arm for plan in plans}
        units = {unit for plan in plans for unit in plan.units.values()}
        with _whole():
            planned = planned_series(plans, queries.ratios_of(self.session, arms, units))
            needed = {key for one in planned for key in one.runs}
            means = queries.means_of(self.session, needed, units)
        taus = {plan.last[-1].row.machine for plan in plans}
        measured = {key: updated(self._by_key[key], means=means.get(key, {})) for key in needed}
        measured |= self._measured({key for one in planned for key in one.beside_changes})
        return finished_series(planned, measured, {one: self.tau(one) for one in taus})

    def _measured(self, keys: Collection[str]) -> dict[str, IndexedRun]:
        """Runs by key, with all their measurements."""
        with _whole():
            logs = queries.logs_of(self.session, keys)
        return {key: updated(self._by_key[key], logs=logs.get(key, {})) for key in keys}

    def _read_headers(self) -> tuple[IndexedRun, ...]:
        present, before = self.state.present, self._before
        new = present.keys() - before.keys()
        with _whole():
            if len(new) == len(present):
                return queries.headers(self.session)
            fresh = queries.headers(self.session, new) if new else ()
        kept = [_placed(before[key], *present[key]) for key in present if key in before]
        return tuple(sorted([*kept, *fresh], key=lambda run: (run.row.started_utc, run.row.run)))


def _placed(run: IndexedRun, folder: str, unfinished: str) -> IndexedRun:
    if (run.folder, run.unfinished) == (folder, unfinished):
        return run
    return updated(run, folder=folder, unfinished=unfinished)


def open_history(
    roots: Sequence[Path],
    note: Callable[[str], None],
    cache: Path | None = None,
    before: History | None = None,
) -> History:
    """Brings the index up to date with the records below some folders, and opens it.

    Args:
        roots: Folders of runs.
        note: Receives messages about slow steps.
        cache: Folder of the index; default: the user's cache.
        before: A history opened before; returned again if nothing has changed.

    Raises:
        InputError: A folder does not exist, or none holds a run.
        JissokuError: The index cannot be written.
    """
    cache = cache or default_cache()
    index = HistoryIndex(cache, REVISION)
    present, broken = _present(roots, FolderCache(cache))
    broken += _add_new(index, present, note)
    if not present:
        more = f" ({broken[0]})" if broken else ""
        where = ", ".join(map(str, roots))
        raise InputError(
            f"{where} holds no run that can be read{more}: `jissoku compare` makes one"
        )
    parts = index.parts()
    state = State(present, tuple(part.name for part in parts), tuple(broken))
    if before is not None and before.state == state:
        return before
    with _whole():
        return History(index.connect(present, parts), index.folder, state, before)


def _add_new(index: HistoryIndex, present: Present, note: Callable[[str], None]) -> list[str]:
    """Indexes runs that are not in the index; those that cannot be read leave `present`."""
    broken: list[str] = []
    known = index.known()
    new = [key for key in present if key not in known]
    if len(new) > BATCH:
        note(f"Indexing {len(new)} runs.")
    for first in range(0, len(new), BATCH):
        batch: list[RunRows] = []
        for key in new[first : first + BATCH]:
            try:
                batch.append(_rows(key, Path(present[key][0])))
            except (InputError, ValueError, KeyError, ArithmeticError) as error:
                broken.append(f"{present.pop(key)[0]} is left out: {error}")
        index.add(batch)
    return broken


@contextmanager
def _whole() -> Iterator[None]:
    """Views read their files when they are asked, and another process may have made one of many."""
    try:
        yield
    except duckdb.IOException as error:
        raise JissokuError(
            "another process changed the index while it was read: run the same command again"
        ) from error


def _present(roots: Sequence[Path], folders: FolderCache) -> tuple[Present, list[str]]:
    """By key the folder of each run and why it is unfinished; and what cannot be read."""
    present: Present = {}
    broken = []
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root} is not a folder: name a folder of runs with --records")
        known = folders.read(root)
        found = find_runs(root, known)
        if found != known:
            folders.write(root, found)
        above = "" if root == Path() else f"{root}/" if root != Path("/") else "/"
        for place, entry in found.items():
            if entry.run:
                folder = f"{above}{place}" if place else str(root)
                present.setdefault(entry.run, (folder, entry.unfinished))
            elif entry.problem:
                broken.append(f"{root / place} cannot be read: {entry.problem}")
    return present, broken


def find_run(runs: Sequence[IndexedRun], name: str) -> IndexedRun:
    """A run by its folder, the end of its folder's path, or the beginning of its key.

    Raises:
        InputError: No run or several match.
    """
    asked = Path(name)
    found = [run for run in runs if Path(run.folder) == asked]
    found = found or [
        run
        for run in runs
        if Path(run.folder).parts[-len(asked.parts) :] == asked.parts
        or (len(name) >= 4 and run.row.run.startswith(name))
    ]
    if not found:
        raise InputError(f"{name} is no run that was found: `jissoku history` lists them")
    if len(found) > 1:
        several = ", ".join(run.folder for run in found[:4])
        raise InputError(f"{name} may mean several runs: {several}")
    return found[0]


def compare_folders(earlier: Path, later: Path) -> RunDifference:
    """Compares two runs, given by folder, relative to arms that are the same program in both.

    Raises:
        InputError: A folder holds no run that can be read.
    """
    with TemporaryDirectory(prefix="jissoku-history-") as scratch:
        found = open_history((earlier, later), lambda _: None, Path(scratch))
        known = found.runs()
    runs = [find_run(known, str(folder)) for folder in (earlier, later)]
    return run_difference(runs[0], runs[1], observed_tau(runs))


def _rows(key: str, folder: Path) -> RunRows:
    run, trials = records.read(folder)
    return run_rows(key, run, trials, is_sweep=records.read_sweep(folder) is not None)
