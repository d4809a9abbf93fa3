"""The parts of the index as folders: which there are, which are whole, which another one replaces.

A file in each part lists its runs, so that no table is opened to learn them.
"""

import hashlib
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

PART_FILE = "part.json"

# A part that became a piece of another one is kept for processes that have opened it. The clock is
# that of the files' times.
KEPT_NS = 3_600_000_000_000

# Files of parts that a process keeps in memory: more than an index has, replaced ones included.
PARTS_KEPT = 64


class PartFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a part says of itself.

    Attributes:
        runs: Keys of its runs.
        replaces: Names of parts of which it holds all runs.
        sizes: Of the files of its tables, in bytes.
    """

    runs: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    sizes: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Part:
    """A part that is whole."""

    path: Path
    file: PartFile

    @property
    def name(self) -> str:
        """The name of its folder: hexadecimal digits."""
        return self.path.name


def live_parts(found: Iterable[Part]) -> tuple[Part, ...]:
    """Those of `all_parts` that no other one replaces."""
    found = tuple(found)
    replaced = {name for part in found for name in part.file.replaces}
    return tuple(part for part in found if part.name not in replaced)


def remove_replaced(folder: Path, found: Iterable[Part]) -> None:
    """Removes parts that were replaced long ago, and what interrupted writers have left.

    What was replaced first is removed first: otherwise it would be read again.

    Args:
        folder: Of the index.
        found: What `all_parts` has returned.
    """
    end_ns = time.time_ns() - KEPT_NS
    found = tuple(found)
    removed = {
        name for part in found if _written_ns(part.path) < end_ns for name in part.file.replaces
    }
    for part in sorted(found, key=lambda part: _written_ns(part.path)):
        if part.name in removed:
            shutil.rmtree(part.path, ignore_errors=True)
    for scratch in folder.glob(".new-*"):
        with suppress(OSError):
            if scratch.stat().st_mtime_ns < end_ns:
                shutil.rmtree(scratch, ignore_errors=True)


def write_part_file(folder: Path, file: PartFile, tables: Iterable[str]) -> None:
    """Notes what a part consists of. Other files in it are removed.

    Raises:
        OSError: It cannot be written.
    """
    names = set(tables)
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()
    sizes = {name: (folder / name).stat().st_size for name in sorted(names)}
    whole = msgspec.structs.replace(file, sizes=sizes)
    (folder / PART_FILE).write_bytes(msgspec.json.encode(whole) + b"\n")


def part_digest(folder: Path, file: PartFile) -> str:
    """A name for a part: equal parts have one name, and no part has that of one it replaces."""
    digest = hashlib.sha256((folder / "runs").read_bytes())
    digest.update(" ".join(file.replaces).encode())
    return digest.hexdigest()[:16]


def all_parts(folder: Path) -> list[Part]:
    """Every part by name, replaced ones included. What is not whole is removed."""
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
    found = []
    for path in paths:
        file = _part_file(path)
        if file is None:
            remove(path)
        else:
            found.append(Part(path, file))
    return found


def remove(path: Path) -> None:
    """Removes a part, or what is in its place; nothing if that is not permitted."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _part_file(path: Path) -> PartFile | None:
    """What a part says of itself; None if it is not whole."""
    try:
        written = (path / PART_FILE).stat()
        file = _decoded(path / PART_FILE, written.st_mtime_ns, written.st_size)
        is_whole = bool(file.sizes) and all(
            (path / name).stat().st_size == size for name, size in file.sizes.items()
        )
    except (OSError, msgspec.MsgspecError):
        return None
    return file if is_whole else None


@lru_cache(maxsize=PARTS_KEPT)
def _decoded(path: Path, mtime_ns: int, size: int) -> PartFile:
    """The file as it was written then: one index is listed several times, with all its runs."""
    del mtime_ns, size
    return msgspec.json.decode(path.read_bytes(), type=PartFile)


def _written_ns(path: Path) -> int:
    try:
        return (path / PART_FILE).stat().st_mtime_ns
    except OSError:
        return 0
