"""Bounds of a run, and the files that continuous integration reads."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jissoku import inference, records
from jissoku.errors import InputError
from jissoku.inference.bounds import bound_results
from jissoku.inference.latency import block_costs
from jissoku.model.bound import BoundResult, BoundStatus
from jissoku.records.run_folder import trials_sha256
from jissoku.report.bounds import comment
from jissoku.report.causes import Causes
from jissoku.report.exports import FORMATS


def judge(folder: Path, bounds: Sequence[str]) -> tuple[BoundResult, ...]:
    """Evaluates each bound from a run's records.

    Raises:
        InputError: A bound cannot be read, or names an arm that is not in the run.
    """
    return bound_results(*records.read(folder), bounds)


def check_folders(files: Iterable[Path | None], out: Path | None) -> None:
    """Refuses files whose folder is not there, before anything is measured.

    Args:
        files: That will be written.
        out: The run's folder, which is created; None: its name is not known yet.

    Raises:
        InputError: A folder does not exist, or cannot be written.
    """
    created = {out, *out.parents} if out is not None else set()
    for folder in (file.parent for file in files if file is not None):
        if folder not in created and not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(
                f"no file can be written to {folder}: there is no such folder, or it is read-only"
            )


def any_exceeded(found: Sequence[BoundResult]) -> bool:
    return any(one.status is BoundStatus.EXCEEDED for one in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CiFiles:
    """Where results are written to.

    Attributes:
        comment: Markdown for a comment; None: nowhere.
        step_summary: A job's summary, which is shared with other steps, and appended to.
        exports: Files of other tools, by format.
    """

    comment: Path | None = None
    step_summary: Path | None = None
    exports: Mapping[str, Path] = field(default_factory=dict)


def write_ci_files(
    folder: Path, found: Sequence[BoundResult], files: CiFiles, known: Causes | None = None
) -> None:
    """Writes a run's comment, its part of a job's summary, and exports by format.

    `known` is why an arm uses more CPU time, if that was looked for.

    Raises:
        InputError: A file cannot be written.
    """
    run, trials = records.read(folder)
    summary = inference.summarise(run, trials)
    text = comment(summary, found, trials_sha256(folder), known)
    costs = block_costs(run, trials)
    try:
        if files.comment is not None:
            files.comment.write_text(text, encoding="utf-8")
        if files.step_summary is not None:
            with files.step_summary.open("a", encoding="utf-8") as file:
                file.write(text)
        for name, path in files.exports.items():
            path.write_text(FORMATS[name](summary, costs, found), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from error
