"""The table of a run while it is measured: values so far, and what would decide."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jissoku.model.run import Load
from jissoku.model.summary import ArmSummary, Comparison, Metric, Summary
from jissoku.model.wording import distance_percent, plural, rounded_up
from jissoku.report import format as fmt, tables
from jissoku.report.terminal import WIDTH_MAX, brief_p99, brief_rate, with_width

# Times that an undecided pair needs are shown in seconds up to here.
SECONDS_MAX = 100


class LiveState(StrEnum):
    NONE = "none"  # A value that nothing is compared with.
    OPEN = "open"
    DIFFERENT = "different"
    EQUAL = "equal"


MARKS = {LiveState.DIFFERENT: "\N{CHECK MARK}", LiveState.EQUAL: "="}


@dataclass(frozen=True, slots=True)
class LiveCell:
    """A value so far, and what would decide it: `~40s`, or `<4%` where the run has no time."""

    value: str = ""
    state: LiveState = LiveState.NONE
    needs: str = ""

    @property
    def text(self) -> str:
        """With its mark: `1.31±4% ✓`, `1.02±4% ~40s`."""
        return " ".join(filter(None, (self.short, "" if self.state in MARKS else self.needs)))

    @property
    def short(self) -> str:
        """Without what would decide it."""
        return " ".join(filter(None, (self.value, MARKS.get(self.state, ""))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTable:
    """All targets so far; `decided` of the costs are decided against the baseline."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[LiveCell, ...]], ...]
    decided: int
    asked: int
    legend: str

    @property
    def state(self) -> str:
        return f"{self.decided} of {self.asked} {plural(self.asked, 'cost')} decided."


def live_table(summary: Summary) -> LiveTable:
    """The values so far of a run whose verdicts hold at every moment."""
    known = {one.arm.name: one for one in summary.arm_summaries}
    rows = tuple(
        (arm.name, tuple(_cells(summary, known[arm.name])))
        for arm in summary.run.arms
        if arm.name in known
    )
    at = f" at {fmt.offered(summary.main_load)}" if summary.main_load else ""
    costs = [one for one in summary.by(Metric.COST) if one.against == summary.run.baseline]
    capacity = ["capacity"] if summary.run.objective else []
    text = (
        f"CPU per request as a multiple of {summary.run.baseline}, p99{at}."
        f" {MARKS[LiveState.DIFFERENT]} proven, {MARKS[LiveState.EQUAL]} practically equal, ~40s"
        " time that would decide, <4% not decided: less than that, or none."
    )
    return LiveTable(
        header=("target", *map(fmt.offered, summary.loads), "p99", *capacity),
        rows=rows,
        decided=sum(one.is_decided for one in costs),
        asked=_asked(summary),
        legend=text,
    )


def _asked(summary: Summary) -> int:
    """Targets beside the baseline at each load that both reach."""
    run = summary.run
    others = {run.baseline, run.aa_control, *({run.floor} - {run.baseline})}
    return sum(
        load not in known.unreached
        for load in summary.loads
        for known in summary.arm_summaries
        if known.arm.name not in others
    )


def _cells(summary: Summary, known: ArmSummary) -> Iterator[LiveCell]:
    name, main = known.arm.name, summary.main_load
    for load in summary.loads:
        yield _live_cost(summary, known, load)
    p99 = brief_p99(known.at(main))
    if p99 == fmt.NOTHING:
        yield LiveCell()
    else:
        yield _marked(tables.against_baseline(summary, name, Metric.P99, main), p99)
    if summary.run.objective:
        compared = tables.against_baseline(summary, name, Metric.CAPACITY, None)
        found = known.capacity_rps
        yield _marked(compared, brief_rate(found)) if found else LiveCell()


def _live_cost(summary: Summary, known: ArmSummary, load: Load) -> LiveCell:
    name, run = known.arm.name, summary.run
    point = known.at(load)
    if point is None or point.cost_ns is None:
        return LiveCell(fmt.NOTHING if load in known.unreached else "")
    if name == run.baseline:
        return LiveCell("1")
    found = tables.against_baseline(summary, name, Metric.COST, load)
    if found is None:
        return LiveCell(tables.multiple_of_baseline(summary, point))
    if found.ratio is None:
        return LiveCell(str(found.verdict))
    return _marked(found, with_width(found.ratio))


def _marked(found: Comparison | None, value: str) -> LiveCell:
    if found is None:
        return LiveCell(value)
    if found.is_decided:
        is_different = found.verdict.is_difference
        return LiveCell(value, LiveState.DIFFERENT if is_different else LiveState.EQUAL)
    return LiveCell(value, LiveState.OPEN, _needs(found))


def _needs(found: Comparison) -> str:
    if found.is_out_of_reach and found.ratio is not None and found.ratio.low > 0:
        away = distance_percent(found.ratio.low, found.ratio.high)
        return f"<{rounded_up(away)}%" if away < WIDTH_MAX else ""
    seconds = found.seconds_needed
    if seconds is None:
        return ""
    return f"~{math.ceil(seconds)}s" if seconds < SECONDS_MAX else f"~{math.ceil(seconds / 60)}m"
