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
    above_all = "" if start == "." else start if start.endswith("/") else f"{start}/"
    pending = [("", 0)]
    while pending:
        place, depth = pending.pop()
        folder = f"{above_all}{place}" if place else start
        before = known.get(place)
        try:
            entry = before if before and _is_current(folder, before) else _now(folder, now_ns)
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


def _is_current(folder: str, known: FolderEntry) -> bool:
    """Whether a folder is as it was: up to three calls of stat(2), most of a search's time.

    Raises:
        OSError: It cannot be read.
    """
    if os.stat(folder).st_mtime_ns != known.mtime_ns:  # noqa: PTH116 - of strings: a third of the time
        return False
    if not known.run:
        return True
    header = os.stat(f"{folder}/{RUN_FILE}")  # noqa: PTH116 - as above
    return (
        header.st_mtime_ns == known.header_ns
        and header.st_size == known.header_size
        and _trials_size(folder) == known.trials_size
    )


def _now(folder: str, now_ns: int) -> FolderEntry:
    return _read(folder, os.stat(folder).st_mtime_ns, now_ns)  # noqa: PTH116 - as above


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
