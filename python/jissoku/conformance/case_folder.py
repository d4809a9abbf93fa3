"""Reads the cases of a folder of TOML files, whatever their kind."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from jissoku.errors import InputError


class Named(Protocol):
    """A case of any kind."""

    @property
    def name(self) -> str:
        """Unique in its folder."""


C = TypeVar("C", bound=Named)


class Fill(msgspec.Struct, forbid_unknown_fields=True):
    """Text that replaces every `@` of a case: `text`, `count` times."""

    text: str
    count: int

    @property
    def filling(self) -> str:
        """What `@` is replaced with."""
        return self.text * self.count


def read_folder(folder: Path, read: Callable[[Path], Iterable[C]]) -> tuple[C, ...]:
    """Reads every file of a folder, in the order of their names.

    Args:
        folder: The files in it whose names end in .toml are read.
        read: Reads the cases of one file.

    Raises:
        InputError: A file cannot be read or is invalid, a name is used twice, or there is no case.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError as error:
        raise InputError(f"{folder}: cases cannot be read: {error.strerror}") from error
    cases = tuple(case for path in paths for case in read(path))
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two cases are called {name}: rename one of them")
    if not cases:
        raise InputError(f"{folder} holds no cases: give a folder with .toml files in it")
    return cases
