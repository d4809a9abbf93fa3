"""One measurement at a time on a machine: a lock file that names its holder, and the load it sends.

The lock is flock(2) on a file that every user of the machine can open. The kernel releases it when
the holder ends, however it ends. Python opens files with O_CLOEXEC, so no target and no load
generator inherits the descriptor, and with it the lock.

The holder writes the end of each load into the file: before it, and after it, when nothing of that
is measured. A reader, which is silent meanwhile, neither waits nor locks.
"""

import contextlib
import datetime as dt
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.model.updated import updated
from jissoku.system.processes import PROC

FILE_NAME = "jissoku-measurement.lock"

# The path of another file, for tests and for containers that share a machine but no folder.
PATH_VARIABLE = "JISSOKU_LOCK_FILE"

# The first of these that every user can write to, so that all users of a machine use one file.
SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - see _open

LOCKS = Path("/proc/locks")


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of the lock, from the file.

    `load_until_ns`: about when the load ends that it sends now, by the monotonic clock; 0: none.
    """

    pid: int
    verb: str
    since_utc: str
    load_until_ns: int = 0


# The lock file of this process and what stands in it, while this process has the lock.
_held: list[tuple[int, Holder]] = []


@contextmanager
def measurement_lock(verb: str, path: Path | None = None) -> Iterator[None]:
    """Holds the machine's measurement lock; `verb` is the command, for messages to others.

    InputError: another process holds it; the message names it. JissokuError: it cannot be opened.
    """
    path = path or lock_path()
    try:
        descriptor = _open(path)
    except OSError as error:
        raise JissokuError(f"the lock file {path} cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(_refusal(_holder(descriptor))) from None
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
        holder = Holder(pid=os.getpid(), verb=verb, since_utc=now)
        _write(descriptor, holder)
        _held.append((descriptor, holder))
        try:
            yield
        finally:
            _held.pop()
    finally:
        os.close(descriptor)


def is_measuring(path: Path | None = None, locks: Path = LOCKS) -> bool:
    """Whether a process holds the measurement lock; for displays that are silent meanwhile.

    The kernel's list of locks is read: to try the lock would refuse a measurement that begins just
    now. Where the list is not readable, none is seen.
    """
    try:
        inode = (path or lock_path()).stat().st_ino
        lines = locks.read_text().splitlines()
    except (OSError, JissokuError):
        return False
    held = (line.split() for line in lines)
    # `1: FLOCK ADVISORY WRITE 708 00:01:23456 0 EOF` (proc_locks(5)); `->` marks who waits.
    return any(
        (fields[1], fields[3]) == ("FLOCK", "WRITE") and fields[5].endswith(f":{inode}")
        for fields in held
        if len(fields) > 5
    )


def lock_path(
    environment: Mapping[str, str] = os.environ, folders: tuple[Path, ...] = SHARED_FOLDERS
) -> Path:
    """The machine's lock file; JissokuError if there is no folder for it."""
    if named := environment.get(PATH_VARIABLE):
        return Path(named)
    for folder in folders:
        with contextlib.suppress(OSError):
            if folder.stat().st_mode & stat.S_IWOTH and os.access(folder, os.W_OK):
                return folder / FILE_NAME
    own = environment.get("XDG_RUNTIME_DIR")
    if not own:
        raise JissokuError(
            f"no folder for the measurement lock can be written: set {PATH_VARIABLE} to a file"
        )
    return Path(own) / FILE_NAME


def _open(path: Path) -> int:
    """Opens or creates the lock file; never through a symbolic link.

    A file of another user is opened without O_CREAT, which fs.protected_regular (proc(5)) rejects
    in a world-writable folder; and read-only if it cannot be written, which suffices for flock(2).
    """
    warnings = os.O_NOFOLLOW | os.O_CLOEXEC
    for mode in (os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            return os.open(path, mode | warnings)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | warnings, 0o666)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, 0o666)  # The umask removed the write permission of other users.
    return descriptor


def _write(descriptor: int, holder: Holder) -> None:
    """Overwrites the holder in one call; a shorter one is followed by spaces.

    If that fails (another user's file, full disk) the lock is still held.
    """
    with contextlib.suppress(OSError):
        size = os.fstat(descriptor).st_size
        os.pwrite(descriptor, msgspec.json.encode(holder).ljust(size - 1) + b"\n", 0)


def _holder(descriptor: int) -> Holder | None:
    try:
        # More than a holder writes; another program may have written the file.
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None


# How the refusal of a second measurement begins.
BUSY = "another measurement runs on this machine"


def _refusal(holder: Holder | None) -> str:
    if holder is None:
        return f"{BUSY}: try again when it has ended"
    return (
        f"{BUSY}: `jissoku {holder.verb}`, process {holder.pid},"
        f" since {holder.since_utc} UTC. Two at once would disturb each other: try again when it"
        f" has ended, or end it with `kill -INT {holder.pid}`"
    )


# No load lasts longer: a later end is of another boot, whose clock was ahead.
LOAD_NS_MAX = 600_000_000_000


@contextmanager
def load_window(lasts_ns: int) -> Iterator[None]:
    """Announces that load is sent during the block; nothing if this process has no lock.

    `lasts_ns` is about how long. A reader that waits for the end reads again then.
    """
    if not _held:
        yield
        return
    descriptor, holder = _held[-1]
    _write(descriptor, updated(holder, load_until_ns=time.monotonic_ns() + lasts_ns))
    try:
        yield
    finally:
        _write(descriptor, holder)


def load_seconds_left(path: Path | None = None) -> float:
    """Seconds until the load ends that is being sent now; 0 if there is none."""
    try:
        descriptor = os.open(path or lock_path(), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, JissokuError):
        return 0.0
    try:
        holder = _holder(descriptor)
    finally:
        os.close(descriptor)
    if holder is None or not holder.load_until_ns:
        return 0.0
    left_ns = holder.load_until_ns - time.monotonic_ns()
    is_load = 0 < left_ns <= LOAD_NS_MAX and (PROC / str(holder.pid)).exists()
    return left_ns / 1e9 if is_load else 0.0
