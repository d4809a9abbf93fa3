"""Finds the folders of runs below a folder, and a key for each."""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from jissoku.model.history import FolderEntry
from jissoku.records.run_folder import RUN_FILE, TRIALS_FILE, unfinished_reason

# An experiment's workload is two levels below a folder of runs; a folder of several has one more.
DEPTH_MAX = 5

# Times of files have a resolution (inode(7)): what changed just now may change again within it.
SETTLED_NS = 2_000_000_000

# In place of a folder's time, when it is read the next time in any case.
READ_AGAIN = -1


def find_runs(root: Path, known: Mapping[str, FolderEntry] | None = None) -> dict[str, FolderEntry]:
    """Every folder below a root by its path from there, in order.

    Folders that cannot be read are left out.

    Args:
        root: A folder; its own path is empty.
        known: What an earlier search found: a folder that has not changed since is not read. Files
            are assumed to change only as `RunWriter` changes them, or to have another time or size.
    """
    found: dict[str, FolderEntry] = {}
    known = known or {}
    now_ns = time.time_ns()
    start = os.fspath(root)
    pending = [("", 0)]
    while pending:
        place, depth = pending.pop()
        try:
            entry = _current(os.path.join(start, place), known.get(place), now_ns)  # noqa: PTH118 - of strings: a third of the time
        except OSError:
            continue
        found[place] = entry
        if entry.folders and depth < DEPTH_MAX:
            above = f"{place}/" if place else ""
            names = entry.folders.split("/")
            pending += [(above + name, depth + 1) for name in reversed(names)]
    return found


def run_folders(root: Path) -> Iterator[Path]:
    """Folders with a run, in order of their names; folders that cannot be read are skipped."""
    for place, entry in find_runs(root).items():
        if entry.run or entry.problem:
            yield root / place


def run_key(folder: Path) -> str:
    """A run's key: its header's hash and its trials' size. A copy has the same key.

    Raises:
        OSError: The header cannot be read.
    """
    digest = hashlib.sha256((folder / RUN_FILE).read_bytes()).hexdigest()[:16]
    return f"{digest}-{_trials_size(str(folder)):x}"


def _current(folder: str, known: FolderEntry | None, now_ns: int) -> FolderEntry:
    """What a folder holds now: two or three calls of stat(2) if it has not changed."""
    mtime_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116 - as above
    if known is None or known.mtime_ns != mtime_ns:
        return _read(folder, mtime_ns, now_ns)
    if known.run:
        header = os.stat(f"{folder}/{RUN_FILE}")  # noqa: PTH116 - as above
        signature = (header.st_mtime_ns, header.st_size, _trials_size(folder))
        if signature != (known.header_ns, known.header_size, known.trials_size):
            return _read(folder, mtime_ns, now_ns)
    return known


def _read(folder: str, mtime_ns: int, now_ns: int) -> FolderEntry:
    folders = []
    is_run = False
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    folders.append(entry.name)
            elif entry.name == RUN_FILE:
                is_run = True
    names = "/".join(sorted(folders))
    if not is_run:
        is_settled = mtime_ns < now_ns - SETTLED_NS
        return FolderEntry(mtime_ns=mtime_ns if is_settled else READ_AGAIN, folders=names)
    place = Path(folder)
    try:
        header = (place / RUN_FILE).stat()
        key = run_key(place)
    except OSError as error:
        return FolderEntry(mtime_ns=READ_AGAIN, folders=names, problem=error.strerror or str(error))
    # The file that says why a run is incomplete is overwritten in place.
    unfinished = unfinished_reason(place)
    is_settled = max(mtime_ns, header.st_mtime_ns) < now_ns - SETTLED_NS and not unfinished
    return FolderEntry(
        mtime_ns=mtime_ns if is_settled else READ_AGAIN,
        folders=names,
        run=key,
        header_ns=header.st_mtime_ns,
        header_size=header.st_size,
        trials_size=_trials_size(folder),
        unfinished=unfinished,
    )


def _trials_size(folder: str) -> int:
    try:
        return os.stat(f"{folder}/{TRIALS_FILE}").st_size  # noqa: PTH116 - as above
    except OSError:
        return 0
