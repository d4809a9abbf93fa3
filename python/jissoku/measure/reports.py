"""Writes reports next to the records in a folder."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from jissoku import inference, records, report
from jissoku.errors import InputError
from jissoku.inference.profile import difference, summarise
from jissoku.measure.experiment import read_result
from jissoku.measure.profile import TARGETS_MAX
from jissoku.model import Run, Summary, SweepSummary, Trial, TuningResult
from jissoku.model.experiment import ExperimentResult
from jissoku.model.explanation import Explanation
from jissoku.model.profile import Profile, ProfileDifference
from jissoku.records.run_folder import trials_sha256
from jissoku.report import experiment as experiment_report
from jissoku.report.explanation import to_json as explanation_to_json
from jissoku.report.profile import (
    FlameGraph,
    collapsed,
    collapsed_difference,
    collapsed_interpreted,
    pprof,
    profile_to_html,
    profile_to_json,
    profile_to_text,
)

# Width of a report's text, in characters.
WIDTH = 100

# Every form of a report, by the suffix of its file.
RUN_REPORTS: Mapping[str, Callable[[Summary], str]] = {
    "html": report.to_html,
    "json": report.to_json,
    "txt": partial(report.to_text, width=WIDTH),
}
SWEEP_REPORTS: Mapping[str, Callable[[SweepSummary], str]] = {
    "html": report.sweep_to_html,
    "json": report.to_json,
    "txt": partial(report.sweep_to_text, width=WIDTH),
}
EXPERIMENT_REPORTS: Mapping[str, Callable[[ExperimentResult], str]] = {
    "html": experiment_report.to_html,
    "md": experiment_report.to_markdown,
    "json": experiment_report.to_json,
    "txt": experiment_report.to_text,
}

Subject = TypeVar("Subject")


def write_reports(folder: Path) -> Summary | SweepSummary:
    """Writes the reports of a run or a sweep into its folder, and returns its summary.

    Raises:
        InputError: The folder holds no run, a record is malformed, or the folder cannot be written.
    """
    run, trials = records.read(folder)
    sweep = records.read_sweep(folder)
    if sweep is not None:
        swept = inference.summarise_sweep(run, sweep, trials)
        _write_all(folder, SWEEP_REPORTS, swept)
        return swept
    summary = _summary(folder, run, trials)
    _write_all(folder, _run_reports(folder), summary)
    return summary


def _run_reports(folder: Path) -> Mapping[str, Callable[[Summary], str]]:
    """The reports of a run; its page names its trials, if there are any."""
    page = partial(report.to_html, trials_sha256=trials_sha256(folder))
    return {**RUN_REPORTS, "html": page}


def _summary(folder: Path, run: Run, trials: Sequence[Trial]) -> Summary:
    summary = inference.summarise(run, trials)
    reason = records.unfinished_reason(folder)
    return inference.of_unfinished(summary, reason) if reason else summary


def _write_all(
    folder: Path, reports: Mapping[str, Callable[[Subject], str]], subject: Subject
) -> None:
    write_texts(folder, {f"report.{kind}": make(subject) for kind, make in reports.items()})


def report_text(folder: Path, kind: str) -> str:
    """A run's or a sweep's report, generated from its records and returned.

    Args:
        folder: Of the run.
        kind: `html`, `txt` or `json`.

    Raises:
        InputError: The folder holds no run, or a record is malformed.
    """
    run, trials = records.read(folder)
    sweep = records.read_sweep(folder)
    if sweep is not None:
        return SWEEP_REPORTS[kind](inference.summarise_sweep(run, sweep, trials))
    return _run_reports(folder)[kind](_summary(folder, run, trials))


def experiment_text(folder: Path, kind: str = "html") -> str:
    """An experiment's report, made from its records and written nowhere.

    Args:
        folder: Of the experiment.
        kind: `html`, `txt`, `md` or `json`.

    Raises:
        InputError: The folder holds no experiment, or a record is malformed.
    """
    return EXPERIMENT_REPORTS[kind](read_result(folder))


def write_experiment_reports(folder: Path) -> ExperimentResult:
    """Writes the reports of an experiment into its folder, and returns its result.

    Raises:
        InputError: As `write_reports`.
    """
    result = read_result(folder)
    _write_all(folder, EXPERIMENT_REPORTS, result)
    return result


def write_tuning(folder: Path, found: TuningResult) -> None:
    """Writes a tuning's result into its folder: as JSON, as text, and as a diff if one is proven.

    Raises:
        InputError: The folder cannot be written.
    """
    texts = {
        "tuning.json": report.tuning_to_json(found),
        "tuning.txt": report.tuning_to_text(found),
    }
    if found.diff:
        texts["proven.diff"] = found.diff
    write_texts(folder, texts)


def write_explanation(folder: Path, found: Explanation) -> None:
    """Writes an explanation and the results of its knobs into a folder.

    Raises:
        InputError: The folder cannot be written.
    """
    texts = {"explanation.json": explanation_to_json(found)}
    if found.verification is not None:
        texts["tuning.txt"] = report.tuning_to_text(found.verification)
        if found.verification.diff:
            texts["proven.diff"] = found.verification.diff
    write_texts(folder, texts)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes files, by name, into a folder, which is created if needed.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


# The unit of the values of a flame graph.
UNIT = "ps per request"


class DrawFlameGraph(Protocol):
    """Draws collapsed stacks as SVG, with a script if the image stands alone."""

    def __call__(self, lines: str, title: str, count_name: str, alone: bool) -> str:  # noqa: FBT001
        """The image."""


def write_profile_reports(folder: Path, draw: DrawFlameGraph) -> None:
    """Writes all reports of a folder's profiles.

    Raises:
        InputError: The folder holds no profiles, or cannot be written.
    """
    profiles = records.read_profiles(folder)
    if not profiles:
        raise InputError(f"{folder} holds no profiles")
    summaries = [summarise(profile) for profile in profiles]
    change = difference(*summaries) if len(summaries) == TARGETS_MAX else None
    graphs = [graph for profile in profiles for graph in _graphs(profile)]
    if change is not None:
        graphs.append(_difference_graph(change))
    graphs = [graph for graph in graphs if graph.lines]
    drawn = [_drawn(graph, draw) for graph in graphs]
    texts = {
        "profile.html": profile_to_html(summaries, change, drawn),
        "profile.json": profile_to_json(summaries, change),
        "profile.txt": profile_to_text(summaries, change),
    }
    for graph in graphs:
        texts[f"{graph.name}.svg"] = draw(graph.lines, graph.title, UNIT, alone=True)
        texts[f"{graph.name}.collapsed"] = graph.lines
    write_texts(folder, texts)
    for profile in profiles:
        _write_pprof(folder / f"profile-{_file_name(profile)}.pb.gz", profile)


def _graphs(profile: Profile) -> list[FlameGraph]:
    """Writes flame graphs of native code, and of interpreted functions if there are any."""
    name = _file_name(profile)
    cost = f"{profile.cpu_ns_per_request / 1e3:,.1f} µs of CPU time per request"
    return [
        FlameGraph(
            name=f"flame-{name}",
            title=f"{profile.target}: {cost}",
            lines=collapsed(profile),
        ),
        FlameGraph(
            name=f"flame-{name}-interpreted",
            title=f"{profile.target}, interpreted functions: {cost}",
            lines=collapsed_interpreted(profile),
        ),
    ]


def _difference_graph(change: ProfileDifference) -> FlameGraph:
    first, second = change.first.profile, change.second.profile
    return FlameGraph(
        name="flame-difference",
        title=f"{second.target} less {first.target}: more is red, less is blue",
        lines=collapsed_difference(first, second),
    )


def _drawn(graph: FlameGraph, draw: DrawFlameGraph) -> FlameGraph:
    svg = draw(graph.lines, graph.title, UNIT, alone=False)
    return FlameGraph(name=graph.name, title=graph.title, lines=graph.lines, svg=svg)


def _write_pprof(path: Path, profile: Profile) -> None:
    try:
        path.write_bytes(pprof(profile))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _file_name(profile: Profile) -> str:
    """The target's name as part of a file name, with unusual characters replaced."""
    return "".join(sign if sign.isalnum() or sign in "-._" else "_" for sign in profile.target)
