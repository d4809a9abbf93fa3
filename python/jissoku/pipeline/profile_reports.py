"""From a run's profiles to tables, flame graphs and exports in its folder."""

from pathlib import Path
from typing import Protocol

from jissoku import records
from jissoku.errors import InputError
from jissoku.model.profile import Profile
from jissoku.model.profile_summary import ProfileDifference
from jissoku.pipeline.reports import write_texts
from jissoku.report import profile_export
from jissoku.report.profile import profile_to_json, profile_to_text
from jissoku.report.profile_html import FlameGraph, profile_to_html
from jissoku.stats.profile import summarise
from jissoku.stats.profile_difference import difference

# The unit of the values of a flame graph.
UNIT = "ps per request"

# Number of profiles of a difference.
TARGETS_MAX = 2


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
            lines=profile_export.collapsed(profile),
        ),
        FlameGraph(
            name=f"flame-{name}-interpreted",
            title=f"{profile.target}, interpreted functions: {cost}",
            lines=profile_export.collapsed_interpreted(profile),
        ),
    ]


def _difference_graph(change: ProfileDifference) -> FlameGraph:
    first, second = change.first.profile, change.second.profile
    return FlameGraph(
        name="flame-difference",
        title=f"{second.target} less {first.target}: more is red, less is blue",
        lines=profile_export.collapsed_difference(first, second),
    )


def _drawn(graph: FlameGraph, draw: DrawFlameGraph) -> FlameGraph:
    svg = draw(graph.lines, graph.title, UNIT, alone=False)
    return FlameGraph(name=graph.name, title=graph.title, lines=graph.lines, svg=svg)


def _write_pprof(path: Path, profile: Profile) -> None:
    try:
        path.write_bytes(profile_export.pprof(profile))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _file_name(profile: Profile) -> str:
    """The target's name as part of a file name, with unusual characters replaced."""
    return "".join(sign if sign.isalnum() or sign in "-._" else "_" for sign in profile.target)
