"""Earlier runs as static pages: boards, runs, and a page for each target."""

import math
import re
from collections.abc import Sequence
from hashlib import sha256

from jissoku.model import Estimate
from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import Change, Series, SeriesPoint
from jissoku.report import page, row_plots
from jissoku.report.boards import BOARDS_LEAD, boards
from jissoku.report.format import TIMES, load_mark
from jissoku.report.history_text import (
    KEY_LENGTH,
    change_sentence,
    day,
    multiple,
    pooled_sentence,
    tau_sentence,
)
from jissoku.report.row_plots import Row
from jissoku.report.suspicions import Suspicion, suspicions
from jissoku.report.svg import Chart, even_labels, scale
from jissoku.report.tables import Table

# Longer series are shown by their newest points.
POINTS_MAX = 60

# Changes of the surroundings in a sentence.
BREAKS_MAX = 3


def index_html(runs: Sequence[IndexedRun], series: Sequence[Series], command: str) -> str:
    """The first page: boards, targets and runs, newest first.

    Args:
        runs: All of them.
        series: Of all targets.
        command: Rebuilds the pages from the records.
    """
    return page.render(
        "history.html.j2",
        figures=(),
        heading="Runs and targets",
        lead=BOARDS_LEAD,
        links=[(name, target_file(name)) for name in sorted({one.target for one in series})],
        parts=[(one.title, one.table) for one in boards(series)],
        changes=[_suspicion(one) for one in suspicions(series)],
        sections=(),
        runs=_runs(runs),
        command=command,
    )


def target_html(target: str, series: Sequence[Series], command: str) -> str:
    """A target's page: a chart for each series, and the results across runs."""
    figures = [series_figure(one, number) for number, one in enumerate(series)]
    return page.render(
        "history.html.j2",
        figures=tuple(figures),
        heading=target,
        lead=(
            "Each row is an occasion: runs of one boot without a long pause. A change between two"
            " occasions is a suspicion at most; the command below it measures both together."
        ),
        links=[("All runs and targets", "index.html")],
        parts=(),
        changes=None,
        sections=list(zip(figures, map(series_sentences, series), strict=True)),
        runs=None,
        command=command,
    )


def target_file(target: str) -> str:
    """The file of a target's page; a name that is not a valid file name is hashed."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", target)
    suffix = "" if plain == target else "-" + sha256(target.encode()).hexdigest()[:8]
    return f"target-{plain}{suffix}.html"


def report_file(run: str) -> str:
    return f"run-{run[:16]}.html"


def series_figure(one: Series, number: int) -> Chart:
    """A row for each occasion of a series; `number` distinguishes figures of a page."""
    points = one.points[-POINTS_MAX:]
    estimates = [_estimate(point.ratio) for point in points]
    ends = [end for e in estimates for end in (e.low, e.high)]
    axis = even_labels(scale(ends, lambda v: f"{v:g} {TIMES}"))
    rows = [
        Row(
            name=f"{day(point.started_utc)} {point.version}",
            label=multiple(point.ratio),
            marks=row_plots.dot(axis, estimate),
            style="c0",
            tooltip=f"{point.version}: {multiple(point.ratio)}",
            since="; ".join(point.breaks),
        )
        for point, estimate in zip(points, estimates, strict=True)
    ]
    is_broken = any(point.breaks for point in points[1:])
    return Chart(
        name=f"series-{number}",
        title=series_title(one),
        caption=f"{one.workload_text}; {one.machine_text}. CPU time per request: dot and 95 %"
        " interval of one occasion, oldest on top. Further left is better."
        + (" A dotted line: something besides the target changed." if is_broken else ""),
        drawing=row_plots.draw(f"series-{number}", rows, axis),
        numbers=points_table(points),
    )


def series_title(one: Series) -> str:
    return f"{one.arm} / {one.anchor}, {load_mark(one.load)}"


def points_table(points: Sequence[SeriesPoint]) -> Table:
    """A row for each occasion."""
    return Table(
        header=("occasion", "version", "multiple", "runs", "changed besides the target"),
        rows=tuple(_row(point) for point in points),
    )


def _row(point: SeriesPoint) -> tuple[str, ...]:
    keys = ", ".join(key[:KEY_LENGTH] for key in point.runs)
    changed = "; ".join(point.breaks) or "-"
    return (day(point.started_utc), point.version, multiple(point.ratio), keys, changed)


def series_sentences(one: Series) -> list[str]:
    """Suspected changes with known causes, tested changes, and pooled results."""
    tested = [point.since for point in one.points if point.since]
    return [
        *(sentence for found in suspicions([one]) for sentence in _suspicion(found)),
        *(f"{change_sentence(since)}." for since in tested if not since.is_suspected),
        *_breaks(one),
        pooled_sentence(one.pooled),
        tau_sentence(one.tau),
    ]


def _breaks(one: Series) -> list[str]:
    """Rule 8: what else changed, the newest ones."""
    points = [point for point in one.points if point.breaks]
    if not points:
        return []
    listed = [
        f"{'; '.join(point.breaks)} ({day(point.started_utc)})" for point in points[-BREAKS_MAX:]
    ]
    earlier = f", and {len(points) - BREAKS_MAX} more before" if len(points) > BREAKS_MAX else ""
    return [f"Changed besides the target: {', '.join(listed)}{earlier}."]


def _suspicion(one: Suspicion) -> tuple[str, str]:
    return (
        f"{change_sentence(one.change)}; {one.cause}.",
        f"{one.answer[0].upper()}{one.answer[1:]}",
    )


def _estimate(change: Change) -> Estimate:
    value, low, high = (math.exp(one) for one in (change.mean, change.low, change.high))
    return Estimate(value=value, low=low, high=high, blocks=0, sd_log=0.0)


def _runs(runs: Sequence[IndexedRun]) -> list[tuple[str, str, str, str, str]]:
    """(date, file of the report, key, arms, headline), newest first."""
    return [
        (
            day(run.row.started_utc),
            report_file(run.row.run),
            run.row.run[:KEY_LENGTH],
            ", ".join(arm.arm for arm in run.arms if not (arm.is_floor or arm.is_control)),
            f"{run.row.headline} {f'Incomplete: {run.unfinished}.' if run.unfinished else ''}",
        )
        for run in reversed(runs)
    ]
