"""The report that fits a screen of 80 x 40: one sentence, one table, and what is undecided."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import ArmSummary, Comparison, Load, Metric, Severity, Summary
from jissoku.model.verdict_text import distance_text, more_text
from jissoku.model.wording import plural
from jissoku.report import format as fmt, tables
from jissoku.report.live import width, with_width
from jissoku.report.sanitize import sanitized
from jissoku.report.text import STYLES, shown_loads


def without_figure(comparison: Comparison) -> str:
    """The verdict of a pair that has no ratio and that nothing would decide."""
    return "" if comparison.ratio or comparison.blocks_needed else f"({comparison.verdict})"


# Pairs and warnings beyond these are in the report.
UNDECIDED_MAX = 4
WARNINGS_MAX = 5

# What is written of undecided pairs, each under its title.
UNDECIDED = (
    ("Undecided, with what would decide:", more_text),
    ("Practically equal or closer than this, for which the run is too short:", distance_text),
    ("Without a figure:", without_figure),
)


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
        found = tables.against_baseline(self.summary, name, Metric.COST, load)
        ratio = found.ratio if found else None
        if ratio is None and name == self.summary.run.floor:
            return tables.multiple_of_baseline(self.summary, point) or fmt.NOTHING
        return f"{rank}{with_width(ratio)}" if ratio else fmt.NOTHING

    def _legend(self) -> str:
        summary = self.summary
        at = "" if summary.main_load is None else f" at {fmt.offered(summary.main_load)}"
        text = (
            f"CPU per request at each rate: rank, and multiple of {summary.run.baseline} with its"
            f" 95 % interval; \N{MICRO SIGN}s and p99{at}{self._p99_requests()}."
        )
        if summary.run.objective:
            text += f" Capacity: rank, and requests/s with {summary.run.objective}."
        return text

    def _p99_requests(self) -> str:
        """On how many answers the values of p99 rest."""
        counts = [
            one.requests
            for known in self.summary.arm_summaries
            if (point := known.at(self.summary.main_load)) is not None
            for one in point.percentiles
            if one.label == "p99" and one.requests
        ]
        if not counts:
            return ""
        least, most = min(counts), max(counts)
        return (
            f", of {least:,} requests" if least == most else f", of {least:,} to {most:,} requests"
        )

    def _undecided(self) -> Iterator[RenderableType]:
        """Pairs without an answer by cost or capacity: what would decide, or how close they are."""
        costs = [one for one in self.summary.by(Metric.COST) if not one.is_decided]
        searched = [
            one
            for one in self.summary.by(Metric.CAPACITY)
            if one.ratio is not None and not one.is_decided
        ]
        lost: set[str] = set()
        for title, text in UNDECIDED:
            known = {one: text(one) for one in (*costs, *searched)}
            pairs: dict[str, list[str]] = {}
            for one, said in known.items():
                if said:
                    place = "capacity" if one.metric is Metric.CAPACITY else fmt.offered(one.load)
                    pairs.setdefault(f"{one.arm} / {one.against}", []).append(f"{place} {said}")
            if pairs:
                yield Text("")
                yield Text(title, style="bold")
                shown = list(pairs.items())[:UNDECIDED_MAX]
                yield Text("; ".join(f"{pair} at {', '.join(at)}" for pair, at in shown))
                lost |= set(list(pairs)[UNDECIDED_MAX:])
        if lost:
            yield Text(f"And {len(lost)} more {plural(len(lost), 'pair')}: see the report.")

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


def _capacity(known: ArmSummary) -> str:
    found = known.capacity_rps
    if found is None:
        return fmt.NOTHING
    rank = "" if known.capacity_rank is None else f"{known.capacity_rank} "
    return f"{rank}{fmt.significant(found.value, 2)}{width(found)}"
