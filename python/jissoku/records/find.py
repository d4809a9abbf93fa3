"""Finds the folders of runs below a folder, and a key for each."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from jissoku.records.run_folder import RUN_FILE, TRIALS_FILE

# An experiment's workload is two levels below a folder of runs; a folder of several has one more.
DEPTH_MAX = 5


def run_folders(root: Path) -> Iterator[Path]:
    """Folders with a run, in order of their names; folders that cannot be read are skipped."""
    start = len(root.parts)
    for place, folders, names in os.walk(root):
        folder = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(folder.parts) - start >= DEPTH_MAX:
            folders.clear()
        if RUN_FILE in names:
            yield folder


def run_key(folder: Path) -> str:
    """A run's key: its header's hash and its trials' size. A copy has the same key.

    Raises:
        OSError: The header cannot be read.
    """
    digest = hashlib.sha256((folder / RUN_FILE).read_bytes()).hexdigest()[:16]
    try:
        size = (folder / TRIALS_FILE).stat().st_size
    except OSError:
        size = 0
    return f"{digest}-{size:x}"
