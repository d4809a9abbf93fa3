"""The index of runs, brought up to date and opened."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from jissoku.errors import InputError, JissokuError
from jissoku.inference.across_runs import observed_tau, run_difference
from jissoku.measure.found_runs import FoundRuns
from jissoku.measure.run_history import History
from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import RunDifference
from jissoku.model.wording import plural

# Runs per part, so that an interrupted indexing continues where it stopped.
BATCH = 50


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
        JissokuError: The index cannot be written, or is damaged.
    """
    found = FoundRuns(roots, cache, before)
    new = found.new()
    if len(new) > BATCH:
        note(f"Indexing {len(new)} {plural(len(new), 'run')}.")
    for first in range(0, len(new), BATCH):
        found.add(new[first : first + BATCH])
    found.check_any()
    history = found.opened()
    if len(history.state.present) < len(found.present):
        raise JissokuError(
            "another process changed the index while it was written: run the same command again"
        )
    return history


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
