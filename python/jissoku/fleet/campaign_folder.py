"""The folder of a campaign: its lease, its record as far as it has come, and when it may go.

`lease.json` is created before anything is started, by the one call that succeeds once; `record` is
the run; `ended.json` is written when its process has ended. A process that runs holds a lock on the
lease, so that a later agent knows whether it still does. `copied` is there once its client has said
that it has all of the record on its own disk.
"""

import datetime as dt
import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.fleet.campaign_wire import PART_BYTES_MAX, RUN_ID, CampaignId
from jissoku.records import files
from jissoku.records.run_folder import RUN_FILE, TRIALS_FILE
from jissoku.request import ComparisonRequest

LEASE_FILE, ENDED_FILE, OUTPUT_FILE, RECORD = "lease.json", "ended.json", "output.txt", "record"
COPIED_FILE = "copied"

# The end of what a comparison has printed that a client gets, in bytes.
OUTPUT_BYTES = 2_000

# Days for which a record is kept that its client has copied.
KEPT_DAYS = 30
DAY_S = 86_400.0

# A folder of a campaign, and one that is being removed: that is not left half as what it was.
NAME = re.compile(r"[1-9][0-9]*-[1-9][0-9]*")
REMOVED = ".removed"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign was asked: written before it is started."""

    id: CampaignId
    request: ComparisonRequest


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a campaign has ended."""

    code: int


def leased(place: Path, lease: Lease) -> int:
    """The locked descriptor of a lease that is on disk; InputError if another one has it."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(place / LEASE_FILE, flags, 0o600)
    except FileExistsError:
        raise InputError("this campaign was begun before: it was asked twice") from None
    except OSError as error:
        raise JissokuError(f"the lease cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, msgspec.json.encode(lease))
        os.fsync(descriptor)
        files.sync_folder(place)
    except OSError as error:
        os.close(descriptor)
        raise JissokuError(f"the lease cannot be written: {error.strerror}") from error
    return descriptor


def read(record: Path, offset: int, header_sha256: str) -> tuple[bytes, bytes]:
    """The header of a record, if it is another one, and whole lines from a position on."""
    header = data = b""
    with suppress(FileNotFoundError):
        header = (record / RUN_FILE).read_bytes()
    if hashlib.sha256(header).hexdigest() == header_sha256:
        header = b""
    with suppress(FileNotFoundError), (record / TRIALS_FILE).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not 0 <= offset <= size:
            raise InputError(f"the record has {size:,} bytes, and {offset:,} are said to be known")
        file.seek(offset)
        data = file.read(PART_BYTES_MAX)
    # A line that is being written has no end yet.
    lines = data[: data.rfind(b"\n") + 1]
    if len(data) == PART_BYTES_MAX and not lines:
        raise JissokuError("a line of its record is larger than a message may be")
    return header, lines


def end_of(path: Path) -> str:
    """The end of what a comparison has printed."""
    with suppress(OSError):
        return path.read_bytes()[-OUTPUT_BYTES:].decode(errors="replace")
    return ""


def note_copied(place: Path) -> None:
    """Notes that the client has all of a record; without space on the disk the record stays."""
    with suppress(OSError):
        (place / COPIED_FILE).touch()


def remove_copied(folder: Path, days: float, is_over: Callable[[Path], bool]) -> list[str]:
    """Removes campaigns whose records were copied this long ago, and returns their names.

    Of what is in the folder only that which an agent has made, by its lease, and which `is_over`;
    nothing that a symbolic link leads to.
    """
    removed = []
    for place in _campaigns(folder):
        if place.name.endswith(REMOVED):
            shutil.rmtree(place, ignore_errors=True)
        elif _is_old(place, days) and is_over(place):
            with suppress(OSError):
                gone = place.rename(place.with_name(f"{place.name}{REMOVED}"))
                removed.append(str(place.relative_to(folder)))
                shutil.rmtree(gone)
        with suppress(OSError):
            place.parent.rmdir()  # Unless other machines or attempts are left.
    return removed


def _campaigns(folder: Path) -> Iterator[Path]:
    """All folders of campaigns, by their names and leases, without following a link."""
    for run in sorted(folder.iterdir()):
        if RUN_ID.fullmatch(run.name) and _is_folder(run):
            for place in sorted(run.iterdir()):
                name = place.name.removesuffix(REMOVED)
                if NAME.fullmatch(name) and _is_folder(place):
                    yield place


def _is_folder(place: Path) -> bool:
    return stat.S_ISDIR(place.lstat().st_mode)


def _is_old(place: Path, days: float) -> bool:
    """Whether its client has copied it this long ago; False for what no agent has made."""
    try:
        copied, lease = ((place / name).lstat() for name in (COPIED_FILE, LEASE_FILE))
        if not (stat.S_ISREG(copied.st_mode) and stat.S_ISREG(lease.st_mode)):
            return False
        named = msgspec.json.decode((place / LEASE_FILE).read_bytes(), type=Lease).id.folder()
    except (OSError, msgspec.MsgspecError, InputError):
        return False
    is_own = named == f"{place.parent.name}/{place.name}"
    return is_own and now() - copied.st_mtime >= days * DAY_S


def now() -> float:
    """As files have it: seconds since 1970."""
    return dt.datetime.now(dt.UTC).timestamp()
