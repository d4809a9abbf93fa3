"""Writes reports next to the records in a folder."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jissoku import inference, records, report
from jissoku.errors import HostLost, InputError, JissokuError, RecordError
from jissoku.inference.profile import difference, summarise
from jissoku.measure.experiment import read_result
from jissoku.measure.profile import TARGETS_MAX
from jissoku.model import Profile, Summary, SweepSummary, Trial, TuningResult, updated
from jissoku.model.experiment import ExperimentResult
from jissoku.model.explanation import Explanation
from jissoku.model.wording import micro_text
from jissoku.records.files import writing
from jissoku.records.run_folder import EXPLANATION_FILE, TUNING_FILE, trials_sha256
from jissoku.report import experiment as experiment_report
from jissoku.report.explanation import explanation_to_json
from jissoku.report.profile import (
    FlameGraph,
    collapsed,
    collapsed_difference,
    collapsed_interpreted,
    pprof,
    profile_to_html,
    profile_to_json,
    profile_to_text,
    verdict,
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

# The unit of the values of a flame graph.
UNIT = "ps per request"


def measured(measure: Callable[[], bool]) -> tuple[bool, str]:
    """Whether a run finished; and if it was ended, why it cannot be written or measured further."""
    try:
        return measure(), ""
    except (RecordError, HostLost) as error:
        return False, str(error)


def _reports(
    folder: Path, seen: Sequence[Trial] = ()
) -> tuple[Summary | SweepSummary, dict[str, Callable[[], str]]]:
    run, trials = records.read(folder)
    trials = tuple(seen) or trials
    sweep, reason = records.read_sweep(folder), records.unfinished_reason(folder)
    if sweep is not None:
        swept = inference.summarise_sweep(run, sweep, trials, unfinished=reason)
        return swept, {kind: partial(make, swept) for kind, make in SWEEP_REPORTS.items()}
    summary = inference.summarise(run, trials, unfinished=reason)
    # The page names the trials, if there are any.
    page = partial(report.to_html, trials_sha256=trials_sha256(folder))
    reports: dict[str, Callable[[Summary], str]] = {**RUN_REPORTS, "html": page}
    return summary, {kind: partial(make, summary) for kind, make in reports.items()}


def write_reports(folder: Path) -> tuple[Summary | SweepSummary, str, str]:
    """Writes a run's or a sweep's reports into its folder.

    Returns the summary, the report as JSON, and why there is no report in the folder.
    """
    summary, reports = _reports(folder)
    texts = {f"report.{kind}": make() for kind, make in reports.items()}
    return summary, texts["report.json"], problem_of(lambda: write_texts(folder, texts))


def read_summary(folder: Path, seen: Sequence[Trial] = ()) -> Summary | SweepSummary:
    """From the records, or from the trials that were seen: these have this machine's paths."""
    return _reports(folder, seen)[0]


def problem_of(write: Callable[[], object]) -> str:
    """Why a result cannot be written, which is printed all the same; empty if it is written."""
    try:
        write()
    except JissokuError as error:
        return str(error)
    return ""


def report_text(folder: Path, kind: str) -> str:
    return _reports(folder)[1][kind]()


def experiment_text(folder: Path, kind: str = "html") -> str:
    return EXPERIMENT_REPORTS[kind](read_result(folder))


def write_experiment_reports(folder: Path) -> ExperimentResult:
    result = read_result(folder)
    reports = EXPERIMENT_REPORTS.items()
    write_texts(folder, {f"report.{kind}": make(result) for kind, make in reports})
    return result


def write_tuning(folder: Path, found: TuningResult) -> None:
    """Writes a tuning's result into its folder: as JSON, text, and a diff if one is proven."""
    write_texts(folder, {TUNING_FILE: report.tuning_to_json(found), **_tuning_texts(found)})


def _tuning_texts(found: TuningResult) -> dict[str, str]:
    diff = {"proven.diff": found.diff} if found.diff else {}
    return {"tuning.txt": report.tuning_to_text(found), **diff}


def write_explanation(folder: Path, found: Explanation) -> None:
    """Writes an explanation and the results of its knobs into a folder."""
    tuned = _tuning_texts(found.verification) if found.verification else {}
    write_texts(folder, {EXPLANATION_FILE: explanation_to_json(found), **tuned})


def write_texts(folder: Path, texts: Mapping[str, str | bytes]) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


# Draws collapsed stacks as SVG: their lines, a title, the unit of their weights, and whether the
# image stands alone, and so needs a script.
DrawFlameGraph = Callable[[str, str, str, bool], str]
ALONE, IN_A_PAGE = True, False


class ProfileReports(NamedTuple):
    """The reports of a folder's profiles: their texts, flame graphs, and the verdict.

    `unwritten` is why they are not in the folder; empty if they are.
    """

    texts: Mapping[str, str | bytes]
    graphs: tuple[Path, ...]
    verdict: str
    unwritten: str


def write_profile_reports(
    folder: Path, draw: DrawFlameGraph, sort: str = "self", profiles: Sequence[Profile] = ()
) -> ProfileReports:
    texts, graphs, said = _profile_texts(folder, draw, sort, profiles)
    unwritten = problem_of(lambda: write_texts(folder, texts))
    places = tuple(folder / f"{graph.name}.svg" for graph in graphs)
    return ProfileReports(texts, () if unwritten else places, said, unwritten)


def profile_page(folder: Path, draw: DrawFlameGraph) -> str:
    return str(_profile_texts(folder, draw)[0]["profile.html"])


def _profile_texts(
    folder: Path, draw: DrawFlameGraph, sort: str = "self", profiles: Sequence[Profile] = ()
) -> tuple[dict[str, str | bytes], list[FlameGraph], str]:
    profiles = profiles or records.read_profiles(folder)
    if not profiles:
        raise InputError(f"{folder} holds no profiles")
    summaries = [summarise(profile) for profile in profiles]
    change = difference(*summaries) if len(summaries) == TARGETS_MAX else None
    graphs = [graph for profile in profiles for graph in _graphs(profile)]
    if change is not None:
        first, second = change.first.profile, change.second.profile
        title = f"{second.target} less {first.target}: more is red, less is blue"
        lines = collapsed_difference(first, second)
        graphs.append(FlameGraph(name="flame-difference", title=title, lines=lines))
    graphs = [graph for graph in graphs if graph.lines]
    drawn = [updated(one, svg=draw(one.lines, one.title, UNIT, IN_A_PAGE)) for one in graphs]
    texts: dict[str, str | bytes] = {
        "profile.html": profile_to_html(summaries, change, drawn),
        "profile.json": profile_to_json(summaries, change),
        "profile.txt": profile_to_text(summaries, change, sort),
    }
    for graph in graphs:
        texts[f"{graph.name}.svg"] = draw(graph.lines, graph.title, UNIT, ALONE)
        texts[f"{graph.name}.collapsed"] = graph.lines
    for profile in profiles:
        texts[f"profile-{_file_name(profile)}.pb.gz"] = pprof(profile)
    return texts, graphs, verdict(summaries, change)


def _graphs(profile: Profile) -> list[FlameGraph]:
    name = f"flame-{_file_name(profile)}"
    cost = f"{micro_text(profile.cpu_ns_per_request)} of CPU time per request"
    title = f"{profile.target}, interpreted functions: {cost}"
    return [
        FlameGraph(name=name, title=f"{profile.target}: {cost}", lines=collapsed(profile)),
        FlameGraph(name=f"{name}-interpreted", title=title, lines=collapsed_interpreted(profile)),
    ]


def _file_name(profile: Profile) -> str:
    return "".join(sign if sign.isalnum() or sign in "-._" else "_" for sign in profile.target)
