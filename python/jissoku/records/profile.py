"""Profiles of a run's folder: `profiles.jsonl`, one line per target."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.model.profile import Profile
from jissoku.records import files

PROFILES_FILE = "profiles.jsonl"


def write_profiles(folder: Path, profiles: Sequence[Profile]) -> None:
    """Writes all profiles of a run; the folder is created if needed.

    Raises:
        InputError: The folder holds profiles already, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / PROFILES_FILE).open("xb") as file:
            for profile in profiles:
                file.write(msgspec.json.encode(profile) + b"\n")
    except FileExistsError:
        raise InputError(f"{folder} holds profiles already: choose another --out") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


def read_profiles(folder: Path) -> tuple[Profile, ...]:
    """All profiles of a run; none for a run without.

    Raises:
        InputError: A record is malformed, or of a schema that this version does not know.
    """
    path = folder / PROFILES_FILE
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return ()
    return tuple(
        files.decoded(line, Profile, where=f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
    )
