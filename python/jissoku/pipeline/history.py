"""From folders of records to the index of runs, and to comparisons across runs."""

from collections.abc import Callable, Iterator, Sequence
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
from jissoku.model.history_answer import RunDifference
from jissoku.records.find import find_runs
from jissoku.stats.occasions import first_of_occasions, observed_tau, started
from jissoku.stats.run_difference import run_difference
from jissoku.stats.run_rows import REVISION, run_rows
from jissoku.targets.build_paths import default_cache

# Runs per part, so that an interrupted indexing continues where it stopped.
BATCH = 50


@dataclass(slots=True)
class History:
    """An open index.

    Attributes:
        session: The database in memory, with the runs that were found.
        cache: The folder of the index.
        broken: Folders whose records cannot be read, a sentence each.
        state: Its input: the existing runs, and the parts of the index.
    """

    session: duckdb.DuckDBPyConnection
    cache: Path
    broken: tuple[str, ...]
    state: tuple[object, ...] = ()
    _headers: tuple[IndexedRun, ...] | None = None

    def runs(self, target: str = "") -> tuple[IndexedRun, ...]:
        """Runs, earliest first: all, or those of a target's history."""
        with _whole():
            return queries.runs(self.session, target)

    def headers(self) -> tuple[IndexedRun, ...]:
        """All runs, earliest first, without their measurements; read once."""
        if self._headers is None:
            with _whole():
                self._headers = queries.headers(self.session)
        return self._headers

    def targets(self) -> tuple[str, ...]:
        """Every target that has a run, by name."""
        with _whole():
            return queries.targets(self.session)

    def difference(self, first: str, second: str) -> RunDifference:
        """Compares two runs, given by key, relative to arms that are the same program in both.

        Raises:
            KeyError: There is no run of a key.
        """
        headers = {run.row.run: run for run in self.headers()}
        keys = [run.row.run for run in sorted((headers[first], headers[second]), key=started)]
        machine = headers[keys[1]].row.machine
        like = [run for run in headers.values() if run.row.machine == machine]
        needed = {run.row.run for group in first_of_occasions(like) for run in group}
        with _whole():
            measured = queries.runs_of(self.session, needed.union(keys))
        by_key = {run.row.run: run for run in measured}
        tau = observed_tau([by_key[key] for key in by_key if key in needed])
        return run_difference(by_key[keys[0]], by_key[keys[1]], tau)


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
    state = (present, tuple(part.name for part in parts), broken)
    if before is not None and before.state == state:
        return before
    with _whole():
        return History(index.connect(present, parts), index.folder, tuple(broken), state)


def _add_new(
    index: HistoryIndex, present: dict[str, tuple[str, str]], note: Callable[[str], None]
) -> list[str]:
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


def _present(
    roots: Sequence[Path], folders: FolderCache
) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """By key the folder of each run and why it is unfinished; and what cannot be read."""
    present: dict[str, tuple[str, str]] = {}
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
