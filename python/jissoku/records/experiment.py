"""An experiment's folder: `experiment.json` first, then a run's folder for each workload.

Counters that were measured in separate trials are in a workload's `counters.json`, and the output
of benchmarks in the experiment's `benchmarks.json`.
"""

from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import CounterReadings
from jissoku.model.experiment import BenchmarkOutput, ExperimentHeader
from jissoku.records import files

HEADER_FILE = "experiment.json"
COUNTERS_FILE = "counters.json"
BENCHMARKS_FILE = "benchmarks.json"
FINISHED_FILE = "finished"

Counters = dict[str, CounterReadings]
BenchmarkOutputs = dict[str, BenchmarkOutput]


def is_experiment(folder: Path) -> bool:
    """Whether a folder holds an experiment, and not a single run."""
    return (folder / HEADER_FILE).is_file()


def write_header(folder: Path, header: ExperimentHeader) -> None:
    """Creates the folder, which may not hold an experiment, and writes the header."""
    with files.writing(folder, "an experiment"):
        folder.mkdir(parents=True, exist_ok=True)
        files.create_file(folder / HEADER_FILE, header)


def read_header(folder: Path) -> ExperimentHeader:
    header = files.load(folder / HEADER_FILE, ExperimentHeader)
    if header is None:
        raise InputError(f"{folder} holds no experiment: there is no {HEADER_FILE}")
    return header


def mark_finished(folder: Path) -> None:
    """Records that every workload ran to its end."""
    (folder / FINISHED_FILE).touch()


def is_finished(folder: Path) -> bool:
    return (folder / FINISHED_FILE).exists()


def write_counters(folder: Path, counters: Counters) -> None:
    """Stores the counts of a workload's arms."""
    files.replace_file(folder / COUNTERS_FILE, dict(sorted(counters.items())))


def read_counters(folder: Path) -> Counters:
    """Counters of a workload, by arm; empty without any."""
    return files.load(folder / COUNTERS_FILE, Counters) or {}


def write_benchmarks(folder: Path, figures: BenchmarkOutputs) -> None:
    """Stores the values that an experiment's benchmarks printed."""
    files.replace_file(folder / BENCHMARKS_FILE, dict(sorted(figures.items())))


def read_benchmarks(folder: Path) -> BenchmarkOutputs:
    """The values that an experiment's benchmarks printed, by benchmark; empty without any."""
    return files.load(folder / BENCHMARKS_FILE, BenchmarkOutputs) or {}
