"""Reads the TOML files of checks and tools; unknown keys are errors."""

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

from jissoku.errors import InputError

Noun = TypeVar("Noun")


def read(path: Path, kind: type[Noun]) -> Noun:
    """Reads one file as one noun.

    Raises:
        InputError: It cannot be read, is no TOML, or has a key that is missing, unknown or of
            another kind.
    """
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), kind)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path.name}: {error}") from error
