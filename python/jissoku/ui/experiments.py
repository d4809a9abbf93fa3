"""Experiments, which are folders above the runs of their workloads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.model.history import IndexedRun
from jissoku.records.experiment import is_experiment, is_finished


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundExperiment:
    """An experiment with its runs.

    Attributes:
        runs: Earliest first; the key of the first one is its address.
    """

    folder: Path
    name: str
    runs: tuple[IndexedRun, ...]
    is_finished: bool

    @property
    def url(self) -> str:
        """Of its page."""
        return f"/runs/{self.runs[0].row.run}/experiment"


def experiment_folder(run: IndexedRun) -> Path | None:
    """The folder of the experiment that a run belongs to."""
    above = Path(run.folder).parent
    return above if is_experiment(above) else None


def found_experiments(runs: Sequence[IndexedRun]) -> tuple[FoundExperiment, ...]:
    """Every experiment of some runs, newest first.

    Args:
        runs: Earliest first.
    """
    by_folder: dict[Path, list[IndexedRun]] = {}
    for run in runs:
        by_folder.setdefault(Path(run.folder).parent, []).append(run)
    return tuple(
        FoundExperiment(
            folder=folder,
            name=found[0].row.experiment or folder.name,
            runs=tuple(found),
            is_finished=is_finished(folder),
        )
        for folder, found in reversed(by_folder.items())
        if is_experiment(folder)
    )
