"""Latency and rate over the time of a run that is measured: a point for each trial and target.

They say what is happening, and no more: trials at several loads are in one picture, those that a
check rejected too.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from jissoku.model import ArmMeasurement, Run, Trial
from jissoku.report import format as fmt, plots, svg
from jissoku.report.format import Table, clean
from jissoku.report.plots import Axes, Heading, Line, Point
from jissoku.report.svg import Chart, scale

# The newest ones are drawn: a point takes 200 bytes of every event.
POINTS_MAX, ROWS_MAX = 240, 12

Value = Callable[[ArmMeasurement], float]

FIGURES: tuple[tuple[Heading, Value, Callable[[float], str], Callable[[float], str]], ...] = (
    (
        Heading("live-p99", "Latency, p99", "Of each trial so far, from the moment when due."),
        lambda one: float(one.latency_ns.p99),
        fmt.duration,
        fmt.duration_mark,
    ),
    (
        Heading("live-rate", "Rate", "Responses per second of each trial so far."),
        lambda one: one.requests / one.active_ns * 1e9 if one.active_ns else 0.0,
        fmt.rate,
        fmt.rate_mark,
    ),
)


def live_charts(run: Run, trials: Sequence[Trial]) -> tuple[Chart, ...]:
    """Charts of the newest trials; none before there are two of a target."""
    timed = [one for one in trials if one.elapsed_s is not None and one.measurements]
    count = sum(end <= POINTS_MAX for end in accumulate(len(one.arms) for one in reversed(timed)))
    found = (_chart(run, timed[len(timed) - count :], *figure) for figure in FIGURES)
    return tuple(chart for chart in found if chart is not None)


def _chart(
    run: Run,
    trials: Sequence[Trial],
    heading: Heading,
    value: Value,
    text: Callable[[float], str],
    mark: Callable[[float], str],
) -> Chart | None:
    points = list(_points(trials, value, text))
    lines = []
    for index, name in enumerate(arm.name for arm in run.arms):
        own = tuple(point for owner, point in points if owner == name)
        if own:
            path = tuple((point.x, point.y) for point in own)
            lines.append(Line(name=clean(name), look=svg.look(index), path=path, points=own))
    if all(len(line.points) < 2 for line in lines):
        return None
    axes = Axes(
        x=scale([point.x for _, point in points], lambda at_s: f"{at_s:g} s", is_log=False),
        y=scale([point.y for _, point in points], mark),
        title="seconds since the start",
    )
    rows = tuple(
        (clean(owner), f"{point.x:.1f} s", text(point.y)) for owner, point in points[-ROWS_MAX:]
    )
    numbers = Table(header=("target", "at", heading.title), rows=rows)
    return plots.line_chart(heading, lines, axes, numbers)


def _points(
    trials: Sequence[Trial], value: Value, text: Callable[[float], str]
) -> Iterator[tuple[str, Point]]:
    """By arm, in the order of time; what was not answered has no point."""
    for trial in trials:
        for one in trial.measurements:
            if (found := value(one)) > 0:
                at_s = trial.elapsed_s or 0.0
                said = f"{text(found)} after {at_s:.0f} s"
                yield one.arm, Point(x=at_s, y=found, text=said, is_open=not trial.is_valid)
