"""The index of runs: lists, series and comparisons."""

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from jissoku import records
from jissoku.errors import InputError, JissokuError
from jissoku.history import index as queries
from jissoku.history.index import FolderCache, HistoryIndex, Present
from jissoku.inference import across_runs
from jissoku.inference.run_rows import REVISION, run_rows
from jissoku.inference.series import finished_series, planned_series, series_plans
from jissoku.model import history as model, plural, updated
from jissoku.records.run_folder import find_runs
from jissoku.report.format import clean
from jissoku.targets.placeholders import default_cache

# Runs per part, so that an interrupted indexing continues where it stopped.
BATCH = 50


class History:
    """An open index. What is computed from all runs is kept, so that a second question is fast.

    Attributes:
        index: The index of these and other runs.
        present: By key of a run its folder, and why it is unfinished.
        broken: Folders whose records cannot be read, a sentence each.
        session: A connection to the index that shows the runs that are present.
        headers_read: By key the headers that were read so far: all, or none.
        is_damaged: Whether something could not be read.
    """

    def __init__(
        self,
        index: HistoryIndex,
        present: Present,
        broken: tuple[str, ...],
        before: "History | None" = None,
    ) -> None:
        """Opens the index; headers that the history `before` has read are not read again."""
        self.index = index
        self.present = present
        self.broken = broken
        with index.reading():
            self.session = index.connect(present)
        weakref.finalize(self, self.session.close)
        self.is_damaged = False
        self._before = before.headers_read if before else {}
        self.headers_read: dict[str, model.IndexedRun] = {}
        self._taus: dict[str, model.Tau] = {}
        self._series: dict[str, tuple[model.Series, ...]] = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        try:
            with self.index.reading():
                yield
        except JissokuError:
            self.is_damaged = True
            raise

    def runs(self) -> tuple[model.IndexedRun, ...]:
        """All runs, earliest first, with all their measurements: for few runs."""
        keys = [run.row.run for run in self.headers()]
        return tuple(self._measured(keys).values())

    def headers(self) -> tuple[model.IndexedRun, ...]:
        """All runs, earliest first, without their measurements; read once."""
        if not self.headers_read:
            present, before = self.present, self._before
            new = present.keys() - before.keys()
            kept = [_placed(before[key], *present[key]) for key in present if key in before]
            with self.reading():
                chosen = new if kept else None
                fresh = queries.headers(self.session, present, chosen) if new else ()
            ordered = sorted([*kept, *fresh], key=lambda run: (run.row.started_utc, run.row.run))
            self.headers_read = {run.row.run: run for run in ordered}
            self._before = {}
        return tuple(self.headers_read.values())

    def targets(self) -> tuple[str, ...]:
        with self.reading():
            return queries.targets(self.session)

    def series(self, target: str) -> tuple[model.Series, ...]:
        """A target's cost over time, a series for each question; computed once."""
        if target in self._series:
            return self._series[target]
        plans = series_plans(self._occasions, target)
        arms = {plan.arm for plan in plans}
        units = {unit for plan in plans for unit in plan.units.values()}
        with self.reading():
            planned = planned_series(plans, queries.ratios_of(self.session, arms, units))
            needed = {key for one in planned for key in one.runs}
            means = queries.means_of(self.session, needed, units)
        taus = {plan.last[-1].row.machine for plan in plans}
        measured = {
            key: updated(self.headers_read[key], means=means.get(key, {})) for key in needed
        }
        measured |= self._measured({key for one in planned for key in one.beside_changes})
        found = finished_series(planned, measured, {one: self.tau(one) for one in taus})
        self._series[target] = found
        return found

    def costs(self) -> dict[str, dict[str, bool]]:
        """By key of a run its arms with a cost, and whether one of their costs is at a rate."""
        with self.reading():
            return queries.costs(self.session)

    def machine_days(self) -> tuple[model.MachineDay, ...]:
        rows = [run.row for run in self.headers()]
        with self.reading():
            return tuple(across_runs.machine_days(rows, queries.rejections(self.session)))

    def difference(self, first: str, second: str) -> model.RunDifference:
        """Compares two runs, given by key, relative to arms that are the same program in both."""
        self.headers()
        earlier, later = sorted(
            (self.headers_read[first], self.headers_read[second]), key=across_runs.started
        )
        tau = self.tau(later.row.machine)
        measured = self._measured({first, second})
        return across_runs.run_difference(measured[earlier.row.run], measured[later.row.run], tau)

    def tau(self, machine: str) -> model.Tau:
        if machine not in self._taus:
            like = [found for found in self._occasions if found[0].row.machine == machine]
            groups = across_runs.first_of_occasions(like)
            keys = {run.row.run for group in groups for run in group}
            with self.reading():
                means = queries.means_of(self.session, keys)
            self._taus[machine] = across_runs.tau_of_neighbours(
                [updated(run, means=means.get(run.row.run, {})) for run in group]
                for group in groups
            )
        return self._taus[machine]

    @cached_property
    def _occasions(self) -> tuple[across_runs.Occasion, ...]:
        return across_runs.occasions(self.headers())

    def _measured(self, keys: Collection[str]) -> dict[str, model.IndexedRun]:
        with self.reading():
            logs = queries.logs_of(self.session, keys)
        return {key: updated(self.headers_read[key], logs=logs.get(key, {})) for key in keys}


def _placed(run: model.IndexedRun, folder: str, unfinished: str) -> model.IndexedRun:
    if (run.folder, run.unfinished) == (folder, unfinished):
        return run
    return updated(run, folder=folder, unfinished=unfinished)


class FoundRuns:
    """The runs below some folders as they are now, beside an index that may not have all of them.

    The attributes are those of the history that `opened` returns.
    """

    def __init__(
        self, roots: Sequence[Path], cache: Path | None = None, before: History | None = None
    ) -> None:
        """Looks for them; the arguments are those of `open_history`."""
        is_usable = before is not None and not before.is_damaged
        self._before = before if is_usable else None
        self.index = index_in(cache)
        self._roots = tuple(roots)
        self.present: dict[str, tuple[str, str]] = {}
        self.broken: list[str] = []
        for folder, entry in _entries(roots, cache):
            if entry.run:
                self.present.setdefault(entry.run, (folder, entry.unfinished))
            elif entry.problem:
                self.broken.append(clean(f"{folder} cannot be read: {entry.problem}"))

    def new(self) -> list[str]:
        known = self.index.known()
        return [key for key in self.present if key not in known]

    def add(self, keys: Iterable[str]) -> None:
        """Adds runs to the index; those that cannot be read are left out."""
        batch = []
        for key in keys:
            try:
                batch.append(rows_of(key, self.present[key][0]))
            except InputError as error:
                self.leave_out(key, str(error))
        self.index.add(batch)

    def leave_out(self, key: str, reason: str) -> None:
        self.broken.append(clean(f"{self.present.pop(key)[0]} is left out: {reason}"))

    def check_any(self) -> None:
        if not self.present:
            more = f" ({self.broken[0]})" if self.broken else ""
            where = clean(", ".join(map(str, self._roots)))
            raise InputError(
                f"{where} holds no run that can be read{more}: `jissoku compare` makes one"
            )

    def opened(self) -> History:
        """The index over those runs that it has; the one opened before, if nothing has changed."""
        known, before = self.index.known(), self._before
        present = {key: place for key, place in self.present.items() if key in known}
        broken = tuple(self.broken)
        if before is not None and (before.present, before.broken) == (present, broken):
            return before
        return History(self.index, present, broken, before)


def index_in(cache: Path | None = None) -> HistoryIndex:
    return HistoryIndex(cache or default_cache(), REVISION)


def rows_of(key: str, folder: str) -> model.RunRows:
    place = Path(folder)
    try:
        run, trials = records.read(place)
        return run_rows(key, run, trials, is_sweep=records.read_sweep(place) is not None)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise InputError(str(error)) from error


def documents(roots: Sequence[Path], cache: Path | None = None) -> Iterator[tuple[str, str]]:
    """The folder and the file of every explanation, tuning and profile below some folders."""
    for folder, entry in _entries(roots, cache):
        if entry.document:
            yield folder, entry.document


def _entries(roots: Sequence[Path], cache: Path | None) -> Iterator[tuple[str, model.FolderEntry]]:
    folders = FolderCache(cache or default_cache())
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root} is not a folder: name a folder of runs with --records")
        known = folders.read(root)
        found = find_runs(root, known)
        if found != known:
            folders.write(root, found)
        above = "" if root == Path() else f"{root}/" if root != Path("/") else "/"
        for place, entry in found.items():
            yield (f"{above}{place}" if place else str(root)), entry


def open_history(
    roots: Sequence[Path],
    note: Callable[[str], None],
    cache: Path | None = None,
    before: History | None = None,
) -> History:
    """Brings the index up to date with the records below some folders, and opens it.

    `note` receives messages about slow steps. A history opened `before` is returned again if
    nothing has changed.
    """
    found = FoundRuns(roots, cache, before)
    new = found.new()
    if len(new) > BATCH:
        note(f"Indexing {len(new)} {plural(len(new), 'run')}.")
    for first in range(0, len(new), BATCH):
        found.add(new[first : first + BATCH])
    found.check_any()
    history = found.opened()
    if len(history.present) < len(found.present):
        raise JissokuError(
            "another process changed the index while it was written: run the same command again"
        )
    return history


def find_run(runs: Sequence[model.IndexedRun], name: str) -> model.IndexedRun:
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


def compare_folders(earlier: Path, later: Path) -> model.RunDifference:
    """Compares two runs, given by folder, relative to arms that are the same program in both."""
    with TemporaryDirectory(prefix="jissoku-history-") as scratch:
        found = open_history((earlier, later), lambda _: None, Path(scratch))
        known = found.runs()
    runs = [find_run(known, str(folder)) for folder in (earlier, later)]
    return across_runs.run_difference(runs[0], runs[1], across_runs.observed_tau(runs))
