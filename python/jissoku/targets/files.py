"""The folder of the common contract: the same bytes on every machine."""

import hashlib
import os
from pathlib import Path

from jissoku.errors import InputError

SIZES = {
    "1k.bin": 1024,
    "10k.bin": 10 * 1024,
    "64k.bin": 64 * 1024,
    "100k.bin": 100 * 1024,
    "1m.bin": 1024 * 1024,
}


def content(name: str) -> bytes:
    """The bytes of a file of the contract: SHAKE-256 of its name, which does not compress."""
    return hashlib.shake_256(name.encode()).digest(SIZES[name])


def make(folder: Path) -> Path:
    """Creates the contract's files that do not exist yet, and returns the folder.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in SIZES:
            _make(folder / name)
    except OSError as error:
        raise InputError(f"{folder}: files to serve cannot be made: {error.strerror}") from error
    return folder


def _make(path: Path) -> None:
    right = content(path.name)
    if not path.is_file() or path.read_bytes() != right:
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(right)
        fresh.replace(path)  # a target that serves the folder never sees half a file
