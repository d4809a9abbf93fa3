"""An experiment's folder: `experiment.json` first, then a run's folder for each workload.

What was counted in trials of their own stands in a workload's `counters.json`, and what benchmarks
printed in the experiment's `benchmarks.json`.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.model import CounterReadings
from jissoku.model.experiment import SCHEMA, BenchmarkOutput, ExperimentHeader

HEADER_FILE = "experiment.json"
COUNTERS_FILE = "counters.json"
BENCHMARKS_FILE = "benchmarks.json"
FINISHED_FILE = "finished"

Counters = dict[str, CounterReadings]
BenchmarkOutputs = dict[str, BenchmarkOutput]

Kept = TypeVar("Kept")


def is_experiment(folder: Path) -> bool:
    """Whether a folder holds an experiment, and not a single run."""
    return (folder / HEADER_FILE).is_file()


def write_header(folder: Path, header: ExperimentHeader) -> None:
    """Creates the folder and writes the header.

    Raises:
        InputError: The folder holds an experiment already, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / HEADER_FILE).open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n")
    except FileExistsError:
        raise InputError(f"{folder} holds an experiment already: choose another --out") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


def read_header(folder: Path) -> ExperimentHeader:
    """Reads the header back.

    Raises:
        InputError: There is none, or this version does not know its schema.
    """
    path = folder / HEADER_FILE
    try:
        raw = path.read_bytes()
        found = msgspec.json.decode(raw).get("schema")
        if found != SCHEMA:
            raise InputError(f"{path}: schema {found!r}; this version reads {SCHEMA!r}")
        return msgspec.json.decode(raw, type=ExperimentHeader)
    except OSError as error:
        raise InputError(f"{folder} holds no experiment: {error.strerror}") from error
    except (msgspec.MsgspecError, AttributeError) as error:
        raise InputError(f"{path}: not a record: {error}") from error


def mark_finished(folder: Path) -> None:
    """Says that every workload ran to its end."""
    (folder / FINISHED_FILE).touch()


def is_finished(folder: Path) -> bool:
    """Whether every workload ran to its end."""
    return (folder / FINISHED_FILE).exists()


def write_counters(folder: Path, counters: Counters) -> None:
    """Keeps what was counted beside a workload's run, by arm."""
    _write(folder / COUNTERS_FILE, counters)


def read_counters(folder: Path) -> Counters:
    """Counters of a workload, by arm; empty without any.

    Raises:
        InputError: The file is not what `write_counters` writes.
    """
    return _read(folder / COUNTERS_FILE, Counters) or {}


def write_benchmarks(folder: Path, figures: BenchmarkOutputs) -> None:
    """Keeps what the benches of an experiment printed, by bench."""
    _write(folder / BENCHMARKS_FILE, figures)


def read_benchmarks(folder: Path) -> BenchmarkOutputs:
    """What the benches of an experiment printed, by bench; nothing where there was none.

    Raises:
        InputError: The file is not what `write_benchmarks` writes.
    """
    return _read(folder / BENCHMARKS_FILE, BenchmarkOutputs) or {}


def _write(path: Path, kept: Counters | BenchmarkOutputs) -> None:
    raw = msgspec.json.format(msgspec.json.encode(kept, order="sorted"), indent=2)
    path.write_bytes(raw + b"\n")


def _read(path: Path, kind: type[Kept]) -> Kept | None:
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: not a record: {error}") from error
