"""What was found below folders with runs, kept so that only what changed is read again."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from jissoku.model.history import FolderEntry

Entries = dict[str, FolderEntry]


class FolderCache:
    """A file for each root.

    Each of its entries is compared with the folder before it is used, so it does not matter which
    of two writers is the last, or that it is deleted.
    """

    def __init__(self, cache: Path) -> None:
        """Creates nothing yet."""
        names = " ".join(FolderEntry.__struct_fields__)
        version = hashlib.sha256(names.encode()).hexdigest()[:12]
        self.folder = cache / "history" / f"folders-{version}"

    def read(self, root: Path) -> Entries:
        """What was found below a root; nothing if that is unknown or cannot be read."""
        try:
            return msgspec.msgpack.decode(self._file(root).read_bytes(), type=Entries)
        except (OSError, msgspec.MsgspecError):
            return {}

    def write(self, root: Path, entries: Mapping[str, FolderEntry]) -> None:
        """Keeps what was found; without it the next search reads every folder."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self.folder)
            fresh = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_encoded(entries))
                fresh.replace(self._file(root))
            except OSError:
                fresh.unlink()

    def _file(self, root: Path) -> Path:
        name = hashlib.sha256(os.fsencode(root.absolute())).hexdigest()[:16]
        return self.folder / name


def _encoded(entries: Mapping[str, FolderEntry]) -> bytes:
    """Without folders that have, or hold, a name that is no text: those are read every time."""
    try:
        return msgspec.msgpack.encode(entries)
    except UnicodeError:
        return msgspec.msgpack.encode(
            {place: entry for place, entry in entries.items() if _is_text(place + entry.folders)}
        )


def _is_text(names: str) -> bool:
    try:
        names.encode()
    except UnicodeError:
        return False
    return True
