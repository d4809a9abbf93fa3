"""A run's folder: `run.json` first, then `trials.jsonl`, a line a trial, flushed as it ends.

A reader may meet a folder whose writer is still at work or was killed: a last line without its
newline was never finished, and is left out.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.model import Run, Trial, run as run_noun, trial as trial_noun

Noun = TypeVar("Noun")

RUN_FILE = "run.json"
TRIALS_FILE = "trials.jsonl"


class Store:
    """Writes one run's records, as a context manager; a line is on disk when `add` returns."""

    def __init__(self, folder: Path, run: Run) -> None:
        """Creates `folder` and writes the header.

        Raises:
            InputError: The folder holds a run already, or cannot be written.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / RUN_FILE).open("xb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
            self._trials = (folder / TRIALS_FILE).open("xb")
        except FileExistsError:
            raise InputError(f"{folder} holds a run already: choose another --out") from None
        except OSError as error:
            raise InputError(f"{folder} cannot be written: {error.strerror}") from error

    def add(self, trial: Trial) -> None:
        """Appends one trial and waits until the disk has it."""
        self._trials.write(msgspec.json.encode(trial) + b"\n")
        self._trials.flush()
        os.fsync(self._trials.fileno())

    def __enter__(self) -> Self:
        """Nothing to do: the folder stands since the constructor."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the trials file."""
        self._trials.close()


def read(folder: Path) -> tuple[Run, tuple[Trial, ...]]:
    """Reads a run back, whole.

    Raises:
        InputError: There is no run, or a record is malformed or of a schema that this version does
            not know; the message names file and line.
    """
    header = folder / RUN_FILE
    try:
        raw = header.read_bytes()
    except OSError as error:
        raise InputError(f"{folder} holds no run: {header.name}: {error.strerror}") from error
    run = _decode(raw, Run, run_noun.SCHEMA, where=str(header))
    return run, tuple(_trials(folder / TRIALS_FILE))


def _trials(path: Path) -> Iterator[Trial]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield _decode(line, Trial, trial_noun.SCHEMA, where=f"{path}:{number}")


def _decode(raw: bytes, kind: type[Noun], schema: str, *, where: str) -> Noun:
    try:
        found = msgspec.json.decode(raw).get("schema")
        if found != schema:
            raise InputError(f"{where}: schema {found!r}; this version reads {schema!r}")
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, AttributeError) as error:
        raise InputError(f"{where}: not a record: {error}") from error
