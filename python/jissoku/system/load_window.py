"""The time in which a measurement sends load, for processes that are silent meanwhile.

The holder of the measurement lock writes the end of each load into the lock's file: before it, and
after it, when nothing of that is measured. A reader neither waits nor locks.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from jissoku.errors import JissokuError
from jissoku.model.updated import updated
from jissoku.system.measurement_lock import Holder, lock_path, read_holder
from jissoku.system.processes import PROC

# No load lasts longer: a later end is of another boot, whose clock was ahead.
LOAD_NS_MAX = 600_000_000_000


@contextmanager
def load_window(lasts_ns: int, path: Path | None = None) -> Iterator[None]:
    """Announces that load is sent during the block; nothing if this process has no lock.

    Args:
        lasts_ns: About how long. A reader that waits for the end reads again then.
        path: The lock file; None: the machine's.
    """
    found = _own_file(path)
    if found is None:
        yield
        return
    file, holder = found
    with suppress(OSError):
        _write(file, updated(holder, load_until_ns=time.monotonic_ns() + lasts_ns))
    try:
        yield
    finally:
        with suppress(OSError):
            _write(file, holder)


def load_seconds_left(path: Path | None = None) -> float:
    """Seconds until the load ends that is being sent now; 0 if there is none."""
    try:
        holder = read_holder(path or lock_path())
    except (OSError, JissokuError):
        return 0.0
    if holder is None or not holder.load_until_ns:
        return 0.0
    left_ns = holder.load_until_ns - time.monotonic_ns()
    is_load = 0 < left_ns <= LOAD_NS_MAX and (PROC / str(holder.pid)).exists()
    return left_ns / 1e9 if is_load else 0.0


def _own_file(path: Path | None) -> tuple[Path, Holder] | None:
    with suppress(OSError, JissokuError):
        file = path or lock_path()
        holder = read_holder(file)
        if holder is not None and holder.pid == os.getpid():
            return file, updated(holder, load_until_ns=0)
    return None


def _write(file: Path, holder: Holder) -> None:
    """Overwrites the holder in one call; a shorter one is followed by spaces."""
    text = msgspec.json.encode(holder)
    descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        os.pwrite(descriptor, text.ljust(size - 1) + b"\n", 0)
    finally:
        os.close(descriptor)
