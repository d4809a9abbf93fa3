"""A comparison on several machines: sentences, forest plots, and what each machine met."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from jissoku.model import updated
from jissoku.model.machines import (
    MachineRatio,
    MachinesComparison,
    MachinesSummary,
    MeasuredMachine,
)
from jissoku.model.summary import ALPHA, Estimate
from jissoku.model.wording import capitalised, counted, verdict_text
from jissoku.report import format as fmt, page, plots, svg, terminal
from jissoku.report.format import Table, sanitized
from jissoku.report.plots import Row
from jissoku.report.svg import Chart, Scale, scale
from jissoku.request import command_line

LEFT = {"machine", "processor", "own verdict", "target", "verdict", "trials rejected", "reason"}
FOLDED = {"processor", "own verdict", "reason", "trials rejected", "verdict"}

# A smaller p-value is shown as smaller.
P_MIN = 0.001

# Columns of a narrow terminal.
RATIOS_FIRST, MACHINES_FIRST, WIDTH_FOR_ALL = 4, 5, 100


def main_comparisons(summary: MachinesSummary) -> tuple[MachinesComparison, ...]:
    """Those against the baseline at the main level, of which reports have plots."""
    return tuple(
        one
        for one in summary.comparisons
        if one.level is summary.main_level and one.against == summary.baseline
    )


def ratios(summary: MachinesSummary, one: MachinesComparison) -> Table:
    """A row for each machine of a comparison, then its mean and a further machine."""
    models = _models(summary)
    rows = [
        (
            str(ratio.machine),
            models[ratio.machine],
            fmt.ratio(ratio.own.ratio),
            _own_verdict(ratio),
            fmt.offered(ratio.own.load),
            str(ratio.blocks),
            _without(one, ratio.machine),
        )
        for ratio in one.ratios
    ]
    for name, found in (("mean", one.ratio), ("next", one.next_machine)):
        if found is not None:
            rows.append((name, "", fmt.ratio(found), "", "", "", ""))
    for gone in one.out:
        model = models.get(gone.machine, "")
        rows.append((str(gone.machine), model, fmt.NOTHING, gone.reason, "", "", ""))
    header = ("machine", "processor", one.arm, "own verdict", "load", "blocks", "mean without it")
    return Table(header=header, rows=tuple(rows))


def _own_verdict(ratio: MachineRatio) -> str:
    text = verdict_text(ratio.own.metric, ratio.own.verdict)
    return f"{text} (proven)" if ratio.own.proven else text


def _without(one: MachinesComparison, machine: int) -> str:
    found = [left.ratio for left in one.leave_one_out if left.machine == machine]
    return fmt.ratio(found[0]) if found else fmt.NOTHING


def _models(summary: MachinesSummary) -> dict[int, str]:
    return {one.number: one.machine.cpu_model for one in summary.machines}


def between(one: MachinesComparison) -> str:
    """How much machines differ, as a sentence; empty for those that are not pooled."""
    if one.tau is None or one.p_differ is None or one.i_squared is None:
        return ""
    sure = "proven" if one.p_differ <= ALPHA else "not proven"
    p_value = "p < 0.001" if one.p_differ < P_MIN else f"p = {one.p_differ:.2g}"
    return (
        f"Machines differ by {100 * one.tau:.1f} % (standard deviation beyond their own errors;"
        f" that they differ is {sure}, {p_value}), which is"
        f" {100 * one.i_squared:.0f} % of the variance (I\N{SUPERSCRIPT TWO})."
    )


def machines(summary: MachinesSummary) -> Table:
    """What each machine has, and what it met."""
    rows = tuple(
        (
            str(one.number),
            one.machine.cpu_model,
            f"{one.cores} of {one.machine.cores}",
            one.machine.kernel,
            str(one.condition),
            str(one.blocks),
            f"{one.trials_valid} of {one.trials_total}",
            _rejected(one),
            str(one.path),
        )
        for one in summary.machines
    )
    header = (
        "machine", "processor", "cores", "kernel", "condition", "blocks", "trials valid",
        "trials rejected", "path",
    )  # fmt: skip
    return Table(header=header, rows=rows)


def _rejected(one: MeasuredMachine) -> str:
    return ", ".join(f"{count} by {name}" for name, count in one.rejected.items()) or "none"


def out(summary: MachinesSummary) -> Table:
    rows = [(str(one.machine), one.reason) for one in summary.out]
    rows += [(str(one.number), one.unfinished) for one in summary.machines if one.unfinished]
    return Table(header=("machine", "reason"), rows=tuple(rows))


def pairs(summary: MachinesSummary) -> Table:
    """Every pair at every level."""
    rows = tuple(
        (
            f"{one.arm} / {one.against}",
            str(one.level),
            fmt.ratio(one.ratio),
            str(one.verdict),
            str(len(one.ratios)),
            fmt.NOTHING if one.tau is None else f"{100 * one.tau:.1f} %",
            fmt.NOTHING if one.next_machine is None else fmt.ratio(one.next_machine),
        )
        for one in summary.comparisons
    )
    header = ("target", "load", "mean", "verdict", "machines", "sd between", "next machine")
    return Table(header=header, rows=rows)


def forest(summary: MachinesSummary, index: int, one: MachinesComparison) -> Chart | None:
    """The ratio of each machine with its interval, grouped by processor, and below the mean."""
    models = _models(summary)
    shown = [ratio for ratio in one.ratios if ratio.own.ratio and not ratio.own.ratio.is_vague]
    shown.sort(key=lambda ratio: (models[ratio.machine], ratio.machine))
    below = [
        (name, found)
        for name, found in (
            (f"mean of {len(one.ratios)}", one.ratio),
            ("next machine", one.next_machine),
        )
        if found is not None and not found.is_vague
    ]
    known = [ratio.own.ratio for ratio in shown if ratio.own.ratio] + [found for _, found in below]
    if not known:
        return None
    axis = scale(
        [1.0, *(end for found in known for end in (found.low, found.high))], fmt.times_mark
    )
    rows = [_machine_row(axis, ratio, models[ratio.machine]) for ratio in shown]
    for place in range(1, len(rows)):
        model = models[shown[place].machine]
        if model != models[shown[place - 1].machine]:
            rows[place] = replace(rows[place], since=model)
    rows += [_mean_row(axis, name, found) for name, found in below]
    heading = plots.heading("forest", arm=one.arm, against=one.against, level=one.level)
    heading = heading._replace(name=f"forest-{index}")
    return plots.row_chart(heading, rows, axis, ratios(summary, one), reference=1.0)


def _machine_row(axis: Scale, ratio: MachineRatio, model: str) -> Row:
    found = ratio.own.ratio
    assert found is not None, "machines without a ratio have no row"
    name = f"{ratio.machine}: {model}"
    return Row(
        name=name,
        label=fmt.ratio(found),
        marks=plots.dot(axis, found.value, found.low, found.high, is_open=not ratio.own.proven),
        style=svg.look(0).style,
        tooltip=f"{name}: {fmt.ratio(found)}, {_own_verdict(ratio)}",
    )


def _mean_row(axis: Scale, name: str, found: Estimate) -> Row:
    marks = svg.interval(axis.at(found.low), axis.at(found.high))
    marks += svg.mark("diamond", axis.at(found.value))
    return Row(name=name, label=fmt.ratio(found), marks=marks, style=svg.look(1).style)


def machines_to_text(summary: MachinesSummary, *, width: int = 100) -> str:
    return terminal.plain(machines_renderable(summary), width=width)


def machines_renderable(summary: MachinesSummary) -> RenderableType:
    """For a rich console, which chooses width and colours."""
    return terminal.Report(partial(_parts, sanitized(summary)))


def _parts(summary: MachinesSummary, width: int) -> Iterator[RenderableType]:
    yield Text(summary.headline, style="bold")
    yield Text("")
    if out(summary).rows:
        yield Text("Not measured to the end", style="bold")
        yield _drawn(out(summary), width, MACHINES_FIRST)
    for one in main_comparisons(summary):
        yield Text(f"{one.arm}, CPU time per {one.against}'s, at {one.level} load", style="bold")
        yield _drawn(ratios(summary, one), width, RATIOS_FIRST)
        yield from (Text(text) for text in notes(summary, one))
        yield Text("")
    yield Text("Every pair", style="bold")
    yield _drawn(pairs(summary), width, MACHINES_FIRST)
    yield Text("Machines", style="bold")
    yield _drawn(machines(summary), width, MACHINES_FIRST)
    yield Text(describe(summary), style="dim")


def notes(summary: MachinesSummary, one: MachinesComparison) -> list[str]:
    """What is said of a comparison, beside the headline."""
    found = [f"{one.sentence}.", between(one), *(f"{capitalised(text)}." for text in one.remarks)]
    return [text for text in found if text not in {"", summary.headline}]


def describe(summary: MachinesSummary) -> str:
    """What each machine was asked."""
    asked = updated(summary.run.request, machine=(), server_keys="")
    machines = counted(summary.run.machines, "machine")
    return f"{command_line(asked)}; {machines}, seed {summary.run.seed}."


def _drawn(table: Table, width: int, first: int) -> RenderableType:
    if width < WIDTH_FOR_ALL:
        table = table.without(range(first, len(table.header)))
    return terminal.drawn_table(table, left=LEFT, folded=FOLDED)


def machines_to_html(summary: MachinesSummary) -> str:
    """The whole page; the same summary always gives the same bytes."""
    summary = sanitized(summary)
    shown = main_comparisons(summary)
    found = [forest(summary, index, one) for index, one in enumerate(shown)]
    return page.render(
        "machines.html.j2",
        figures=[figure for figure in found if figure is not None],
        summary=summary,
        run=summary.run,
        notes=[text for one in shown for text in notes(summary, one)],
        out=out(summary),
        pairs=pairs(summary),
        machines=machines(summary),
        asked=describe(summary),
    )
