"""The parts of the index as folders: which there are, which are whole, which another one replaces.

A file in each part lists its runs, so that no table is opened to learn them.
"""

import hashlib
import os
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

# Files of parts that a process keeps in memory: more than an index has, with those that were
# replaced in the last hour. A listing of more than these would read every file.
PARTS_KEPT = 256


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
    """Those of `all_parts` that no other one replaces. What is not whole is removed."""
    parts = list(found)
    while True:
        replaced = {name for part in parts for name in part.file.replaces}
        live = [part for part in parts if part.name not in replaced]
        broken = [part for part in live if not _is_whole(part)]
        if not broken:
            return tuple(live)
        for part in broken:
            remove(part.path)
            parts.remove(part)


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
    """Every part by name, replaced ones included. What has no part file is removed."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - paths are compared ten times as slowly
    except OSError:
        return []
    found = []
    for path in (folder / name for name in names if not name.startswith(".")):
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
    """What a part says of itself; None if it says nothing."""
    file = f"{path}/{PART_FILE}"
    try:
        written = os.stat(file)  # noqa: PTH116 - of strings: a third of the time
        return _decoded(file, written.st_mtime_ns, written.st_size)
    except (OSError, msgspec.MsgspecError):
        return None


def _is_whole(part: Part) -> bool:
    """Whether its files are there, as long as they were written."""
    sizes = part.file.sizes
    try:
        return bool(sizes) and all(
            os.stat(f"{part.path}/{name}").st_size == size  # noqa: PTH116 - as above
            for name, size in sizes.items()
        )
    except OSError:
        return False


@lru_cache(maxsize=PARTS_KEPT)
def _decoded(file: str, mtime_ns: int, size: int) -> PartFile:
    """The file as it was written then: one index is listed several times, with all its runs."""
    del mtime_ns, size
    return msgspec.json.decode(Path(file).read_bytes(), type=PartFile)


def _written_ns(path: Path) -> int:
    try:
        return (path / PART_FILE).stat().st_mtime_ns
    except OSError:
        return 0
