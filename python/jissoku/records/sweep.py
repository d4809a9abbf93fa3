"""What makes a run's folder a sweep's: `sweep.json`, beside the header and the trials."""

from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.model import Sweep, sweep as noun

SWEEP_FILE = "sweep.json"


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Writes what is swept into a run's folder.

    Raises:
        InputError: It cannot be written.
    """
    try:
        with (folder / SWEEP_FILE).open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(sweep), indent=2) + b"\n")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


def read_sweep(folder: Path) -> Sweep | None:
    """What was swept; None for a run that is no sweep.

    Raises:
        InputError: The record is malformed, or of a schema that this version does not know.
    """
    path = folder / SWEEP_FILE
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    try:
        found = msgspec.json.decode(raw, type=Sweep)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: not a record: {error}") from error
    if found.schema != noun.SCHEMA:
        raise InputError(f"{path}: schema {found.schema!r}; this version reads {noun.SCHEMA!r}")
    return found
