"""The additional record of a sweep: `sweep.json`, beside the header and the trials."""

from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import Sweep
from jissoku.records import files

SWEEP_FILE = "sweep.json"


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Writes the definition of a sweep into a run's folder.

    Raises:
        InputError: It cannot be written.
    """
    try:
        files.create_file(folder / SWEEP_FILE, sweep)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


def read_sweep(folder: Path) -> Sweep | None:
    """The definition of a sweep; None for a run that is not a sweep.

    Raises:
        InputError: The record is malformed, or of a schema that this version does not know.
    """
    return files.load(folder / SWEEP_FILE, Sweep)
