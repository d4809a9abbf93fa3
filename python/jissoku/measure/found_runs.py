"""Runs found below folders of records, and their way into the index."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from jissoku import records
from jissoku.errors import InputError
from jissoku.history.folders import FolderCache
from jissoku.history.index import HistoryIndex
from jissoku.inference.run_rows import REVISION, run_rows
from jissoku.measure.run_history import History, State
from jissoku.model.history import RunRows
from jissoku.records.find import find_runs
from jissoku.report.sanitize import clean
from jissoku.targets.placeholders import default_cache


class FoundRuns:
    """The runs below some folders as they are now, beside an index that may not have all of them.

    Attributes:
        index: Of these and other runs.
        present: By key of a run its folder, and why it is unfinished.
        broken: Folders whose records cannot be read, a sentence each.
    """

    def __init__(
        self, roots: Sequence[Path], cache: Path | None = None, before: History | None = None
    ) -> None:
        """Looks for them.

        Args:
            roots: Folders of runs.
            cache: Folder of the index; default: the user's cache.
            before: A history opened before, of which `opened` uses what is the same.

        Raises:
            InputError: A folder does not exist.
        """
        is_usable = before is not None and not before.is_damaged
        self._before = before if is_usable else None
        self.index = index_in(cache)
        self._roots = tuple(roots)
        self.present, self.broken = _present(roots, FolderCache(cache or default_cache()))

    def new(self) -> list[str]:
        """Keys of the runs that the index does not have."""
        known = self.index.known()
        return [key for key in self.present if key not in known]

    def add(self, keys: Iterable[str]) -> None:
        """Adds runs to the index; those that cannot be read are left out.

        Raises:
            JissokuError: The index cannot be written.
        """
        batch = []
        for key in keys:
            try:
                batch.append(rows_of(key, self.present[key][0]))
            except InputError as error:
                self.leave_out(key, str(error))
        self.index.add(batch)

    def leave_out(self, key: str, reason: str) -> None:
        """Takes out a run whose records cannot be read."""
        self.broken.append(clean(f"{self.present.pop(key)[0]} is left out: {reason}"))

    def check_any(self) -> None:
        """Refuses to show nothing.

        Raises:
            InputError: There is no run.
        """
        if not self.present:
            more = f" ({self.broken[0]})" if self.broken else ""
            where = clean(", ".join(map(str, self._roots)))
            raise InputError(
                f"{where} holds no run that can be read{more}: `jissoku compare` makes one"
            )

    def opened(self) -> History:
        """The index over those runs that it has; the one opened before, if nothing has changed.

        Raises:
            JissokuError: The index is damaged.
        """
        known = self.index.known()
        present = {key: place for key, place in self.present.items() if key in known}
        state = State(present, tuple(self.broken))
        if self._before is not None and self._before.state == state:
            return self._before
        return History(self.index, state, self._before)


def index_in(cache: Path | None = None) -> HistoryIndex:
    """The index of this version in a cache; default: the user's cache."""
    return HistoryIndex(cache or default_cache(), REVISION)


def rows_of(key: str, folder: str) -> RunRows:
    """The rows of a run.

    Raises:
        InputError: Its records cannot be read.
    """
    place = Path(folder)
    try:
        run, trials = records.read(place)
        return run_rows(key, run, trials, is_sweep=records.read_sweep(place) is not None)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise InputError(str(error)) from error


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
                broken.append(clean(f"{root / place} cannot be read: {entry.problem}"))
    return present, broken
