"""The report that fits a screen of 80 x 40: one sentence, one table, and what is undecided."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import ArmSummary, Comparison, Estimate, Load, Metric, Severity, Summary
from jissoku.model.wording import plural
from jissoku.report import format as fmt, tables
from jissoku.report.metric_words import join_names
from jissoku.report.sanitize import sanitized
from jissoku.report.text import STYLES, shown_loads

# Pairs and warnings beyond these are in the report.
UNDECIDED_MAX = 6
WARNINGS_MAX = 5


def brief(summary: Summary) -> RenderableType:
    """For a rich console."""
    return BriefReport(sanitized(summary))


@dataclass(frozen=True, slots=True)
class BriefReport:
    """Lays out the short report."""

    summary: Summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary = self.summary
        yield Text(summary.headline, style="bold")
        yield Text("")
        yield self._table()
        yield Text(self._legend(), style="dim")
        yield from self._undecided()
        yield from self._warnings()

    def _table(self) -> RenderableType:
        summary = self.summary
        main = summary.main_load
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        drawn.add_column("target", overflow="fold")
        loads = shown_loads(summary)
        for load in loads:
            drawn.add_column(fmt.offered(load), justify="right", no_wrap=True)
        for name in ("\N{MICRO SIGN}s", "p99"):
            drawn.add_column(name, justify="right", no_wrap=True)
        if summary.run.objective:
            drawn.add_column("capacity", justify="right", no_wrap=True)
        for known in summary.arm_summaries:
            point = known.at(main)
            cells = [known.arm.name, *(self._cost(known, load) for load in loads)]
            cells.append(fmt.micro_value(point.cost_ns) if point else fmt.NOTHING)
            cells.append(tables.percentile(point, "p99") if point else fmt.NOTHING)
            if summary.run.objective:
                cells.append(_capacity(known))
            drawn.add_row(*map(Text, cells))
        return drawn

    def _cost(self, known: ArmSummary, load: Load) -> str:
        """Rank, and ratio to the baseline with its interval."""
        point, name = known.at(load), known.arm.name
        if point is None or point.cost_ns is None:
            return fmt.NOTHING
        rank = "" if point.rank is None else f"{point.rank} "
        if name == self.summary.run.baseline:
            return f"{rank}1"
        found = next(
            (
                one
                for one in self.summary.by(Metric.COST, load)
                if (one.arm, one.against) == (name, self.summary.run.baseline)
            ),
            None,
        )
        ratio = found.ratio if found else None
        if ratio is None and name == self.summary.run.floor:
            base = self._cost_of_baseline(load)
            return f"{point.cost_ns.value / base:.2f}" if base else fmt.NOTHING
        return f"{rank}{_with_width(ratio)}" if ratio else fmt.NOTHING

    def _cost_of_baseline(self, load: Load) -> float | None:
        for known in self.summary.arm_summaries:
            point = known.at(load)
            if known.arm.name == self.summary.run.baseline and point and point.cost_ns:
                return point.cost_ns.value
        return None

    def _legend(self) -> str:
        summary = self.summary
        at = "" if summary.main_load is None else f" at {fmt.offered(summary.main_load)}"
        text = (
            f"CPU per request at each rate: rank, and multiple of {summary.run.baseline} with its"
            f" 95 % interval; \N{MICRO SIGN}s and p99{at}."
        )
        if summary.run.objective:
            text += f" Capacity: rank, and requests/s with {summary.run.objective}."
        return text

    def _undecided(self) -> Iterator[RenderableType]:
        """Pairs without an answer by cost, each with its loads and the blocks that it lacks."""
        rows: dict[tuple[str, str], list[Comparison]] = {}
        for one in self.summary.by(Metric.COST):
            if not one.is_decided:
                rows.setdefault((one.arm, one.against), []).append(one)
        if not rows:
            return
        yield Text("")
        yield Text("Undecided by CPU per request:", style="bold")
        for (arm, against), found in list(rows.items())[:UNDECIDED_MAX]:
            yield Text(f"  {arm} / {against} at {join_names([_lacking(one) for one in found])}")
        if (more := len(rows) - UNDECIDED_MAX) > 0:
            yield Text(f"  and {more} more {plural(more, 'pair')}: see the report.")

    def _warnings(self) -> Iterator[RenderableType]:
        """Titles of problems and warnings; their texts are in the report, and with --verbose."""
        found = [one for one in self.summary.warnings if one.severity is not Severity.NOTE]
        if not found:
            return
        yield Text("")
        for one in found[:WARNINGS_MAX]:
            yield Text(f"{one.severity}: {one.title}", style=STYLES[one.severity])
        if (more := len(found) - WARNINGS_MAX) > 0:
            yield Text(f"and {more} more {plural(more, 'warning')}: see the report.")


def _lacking(one: Comparison) -> str:
    at = fmt.offered(one.load)
    if one.ratio is None:
        return f"{at} ({one.verdict})"
    more = ""
    if needed := one.blocks_needed:
        more = f", {needed} more {plural(needed, 'block')}"
    return f"{at} ({_with_width(one.ratio)}{more})"


def _with_width(ratio: Estimate) -> str:
    """The value, with the half-width of its interval in per cent: `1.31±4%`."""
    return f"{ratio.value:.2f}{_width(ratio)}"


def _width(found: Estimate) -> str:
    part = 100 * (found.high - found.low) / 2 / found.value
    return f"\N{PLUS-MINUS SIGN}{part:.0f}%" if part < 1000 else ""


def _capacity(known: ArmSummary) -> str:
    found = known.capacity_rps
    if found is None:
        return fmt.NOTHING
    rank = "" if known.capacity_rank is None else f"{known.capacity_rank} "
    return f"{rank}{fmt.significant(found.value, 2)}{_width(found)}"
