"""An experiment's report: the claims first, then their evidence."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from jissoku.model import Estimate, Summary, more_blocks
from jissoku.model.experiment import (
    ClaimResult,
    ClaimStatus,
    ExperimentResult,
    InequalityResult,
    PublishedComparison,
    PublishedFigure,
)
from jissoku.model.updated import updated
from jissoku.model.wording import plural
from jissoku.report import format as fmt, method, page, plots, svg, tables
from jissoku.report.format import Table, sanitized
from jissoku.report.plots import Heading, Row
from jissoku.report.svg import Chart, Scale, scale
from jissoku.report.tables import WARNING

WIDTH = 100

# Metrics in nanoseconds.
TIMES = ("cost", "p50", "p95", "p99", "p999")

# Columns whose cells are sentences, which are shown without the column's name.
UNLABELLED_COLUMNS = {"why", "remark"}


def headline(outcome: ExperimentResult) -> str:
    counts = Counter(claim.status for claim in outcome.claims)
    several = {ClaimStatus.HOLDS: "hold", ClaimStatus.FAILS: "do not hold"}
    text = ", ".join(
        f"{counts[one]} {plural(counts[one], one, several.get(one, one))}"
        for one in ClaimStatus
        if counts[one]
    )
    begun = "" if outcome.is_finished else "Not run to its end. "
    total = len(outcome.claims)
    return f"{begun}Of {total} {plural(total, 'claim')}: {text}."


def claims(outcome: ExperimentResult) -> Table:
    rows = tuple(
        (known.claim.name, known.claim.text, str(known.status), "; ".join(evidence(known)))
        for known in outcome.claims
    )
    return Table(header=("claim", "what it says", "answer", "what it rests on"), rows=rows)


def evidence(known: ClaimResult) -> Iterator[str]:
    for test in known.inequalities:
        yield _inequality_text(test)
    yield from known.remarks


def _inequality_text(test: InequalityResult) -> str:
    text = test.text
    if test.measured:
        bound = "" if test.bound is None else f" against {test.bound:,.6g}"
        text += f": {_measured(test)}{bound}"
    if test.status is not ClaimStatus.HOLDS:
        text += f", {test.status}"
    if test.blocks_needed is not None:
        text += f" ({more_blocks(test.blocks_needed)} would decide)"
    elif test.status is ClaimStatus.UNDECIDED and test.value is not None and not test.remarks:
        text += " (no affordable number of blocks would decide)"
    # An answer that a check contradicts is undecided, with the reason in its remarks.
    is_decided = test.status in {ClaimStatus.HOLDS, ClaimStatus.FAILS}
    doubts = (
        f"{WARNING} {check.name} gives {fmt.ratio(check.ratio)}"
        for check in test.cross_checks
        if is_decided and not check.agrees
    )
    return text + "".join(f" ({remark})" for remark in (*test.remarks, *doubts))


def _measured(test: InequalityResult) -> str:
    """A ratio, or a larger value with thousands separators."""
    if test.value is None or test.value.value < 1000:
        return test.measured
    return fmt.interval(test.value, partial(fmt.significant, digits=4))


def published(outcome: ExperimentResult) -> Table:
    """Published and measured values, both as ratios to their table's first row."""
    header = ("server", "published", "ratio then", "ours", "ratio now", "remark")
    return Table(header=header, rows=tuple(map(_published, outcome.published)))


def _published(found: PublishedComparison) -> tuple[str, ...]:
    row = found.published
    metric = row.quantity.partition("(")[0]
    show = fmt.rate if metric == "rate" else fmt.duration if metric in TIMES else fmt.significant
    return (
        _row_name(row),
        f"{row.value:,g} {row.unit}",
        fmt.NOTHING if found.ratio is None else fmt.significant(found.ratio),
        fmt.NOTHING if found.ours is None else show(found.ours.value),
        fmt.NOTHING if found.our_ratio is None else found.our_ratio.text,
        "; ".join(filter(None, (row.note, found.remark))),
    )


def _row_name(row: PublishedFigure) -> str:
    return f"{row.table}: {row.server}" if row.table else row.server


def unobtainable(outcome: ExperimentResult) -> Table:
    """Servers that were not measured: unobtainable ones, and those missing here."""
    header = outcome.header
    rows = [
        *((one.name, one.reason, one.substitute) for one in header.experiment.unobtainable),
        *(
            (one.name, f"{one.reason}; to add it: {one.install_hint}", "")
            for one in header.unavailable
        ),
        *((f"workload {name}", reason, "") for name, reason in header.skipped.items()),
    ]
    return Table(
        header=("not here", "why", "in its place"),
        rows=tuple((name, why, instead or fmt.NOTHING) for name, why, instead in rows),
    )


def to_json(outcome: ExperimentResult) -> str:
    """One object of schema `jissoku.outcome/1`; the workloads' own summaries are in it."""
    return fmt.to_json(updated(outcome, headline=headline(outcome)))


def to_text(outcome: ExperimentResult) -> str:
    """For a terminal: claims with their evidence, then published values, then missing servers."""
    return "\n".join(_text(sanitized(outcome))).rstrip("\n") + "\n"


def _text(outcome: ExperimentResult) -> Iterator[str]:
    experiment = outcome.header.experiment
    yield f"{experiment.name}: {experiment.title}"
    yield headline(outcome)
    yield ""
    for known in outcome.claims:
        yield from _wrapped(f"{known.claim.name}  {known.status}: {known.claim.text}", "", "   ")
        for line in evidence(known):
            yield from _wrapped(line, "     ", "       ")
    yield ""
    for title, table in (
        ("Published vs measured", published(outcome)),
        ("Not tested", unobtainable(outcome)),
    ):
        if table.rows:
            yield title
            for row in table.rows:
                cells = zip(table.header[1:], row[1:], strict=True)
                text = [
                    cell if name in UNLABELLED_COLUMNS else f"{name} {cell}"
                    for name, cell in cells
                    if cell not in {"", fmt.NOTHING}
                ]
                yield from _wrapped(f"{row[0]}: {', '.join(text)}", "  ", "    ")
            yield ""
    for part in workload_sections(outcome):
        yield from _wrapped(f"{part.name}: {part.workload_text} {part.headline}", "", "  ")


def brief_text(outcome: ExperimentResult) -> str:
    """One screen of an experiment that was interrupted: the claims with an answer."""
    outcome = sanitized(outcome)
    answered = {ClaimStatus.HOLDS, ClaimStatus.FAILS}
    lines = [headline(outcome)]
    for known in outcome.claims:
        if known.status in answered:
            lines += _wrapped(f"{known.claim.name}  {known.status}: {known.claim.text}", "", "   ")
    others = [known.claim.name for known in outcome.claims if known.status not in answered]
    if others:
        lines += _wrapped(f"Without an answer: {', '.join(others)}.", "", "  ")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, first: str, rest: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def to_markdown(outcome: ExperimentResult) -> str:
    """For a repository, next to the records."""
    outcome = sanitized(outcome)
    tables = (
        ("Claims", claims(outcome)),
        ("Published vs measured", published(outcome)),
        ("Not tested", unobtainable(outcome)),
    )
    text = page.markdown("experiment.md.j2", tables=tables, **_shared(outcome))
    return text.rstrip("\n") + "\n"


def _shared(outcome: ExperimentResult) -> dict[str, Any]:
    """What pages and Markdown have in common."""
    experiment = outcome.header.experiment
    summaries = list(outcome.summaries.values())
    return {
        "experiment": experiment,
        "description": experiment.description.strip().split("\n\n"),
        "headline": headline(outcome),
        "parts": workload_sections(outcome),
        "machine": method.machine(summaries[0].run) if summaries else (),
    }


def to_html(outcome: ExperimentResult) -> str:
    outcome = sanitized(outcome)
    return page.render(
        "experiment.html.j2",
        figures=[one for one in (claims_chart(outcome), published_chart(outcome)) if one],
        claims=[(known, list(evidence(known))) for known in outcome.claims],
        published=published(outcome),
        absent=unobtainable(outcome),
        arms=_arms(outcome),
        **_shared(outcome),
    )


def _arms(outcome: ExperimentResult) -> list[tuple[str, str, str]]:
    found: dict[str, tuple[str, str, str]] = {}
    for summary in outcome.summaries.values():
        for arm in summary.run.arms:
            found.setdefault(arm.name, (arm.name, arm.version, arm.description))
    return list(found.values())


# Class, shape and whether it is open: also distinguishable without colours.
MARKERS = {
    ClaimStatus.HOLDS: ("holds", "dot", False),
    ClaimStatus.FAILS: ("fails", "crossed", False),
    ClaimStatus.UNDECIDED: ("undecided", "dot", True),
}
OURS = ("c0", "dot", False)
PUBLISHED = ("published", "diamond", True)


@dataclass(frozen=True, slots=True)
class _Marker:
    """A mark in a row; a published value has no interval."""

    value: float
    low: float
    high: float
    look: tuple[str, str, bool]
    text: str

    def mark(self, axis: Scale) -> Markup:
        style, shape, is_open = self.look
        parts = [svg.mark(shape, axis.at(self.value), is_open=is_open)]
        if self.low < self.high:
            parts.insert(0, svg.interval(axis.at(self.low), axis.at(self.high)))
        return svg.titled(self.text, *parts, style=style)


def claims_chart(outcome: ExperimentResult) -> Chart | None:
    """Every part of a claim that has an interval, relative to its bound."""
    drawn = [
        (name, test)
        for known in outcome.claims
        for name, test in _named(known.claim.name, known.inequalities)
        if test.value is not None and test.bound and test.status in MARKERS
    ]
    if not drawn:
        return None
    rows = [
        (name, f"{_plain(_value(test).value)}, {_claimed(test)}", _claim_points(test))
        for name, test in drawn
    ]
    met = {test.status for _, test in drawn}
    looks = [(str(one), look) for one, look in MARKERS.items() if one in met]
    caption = (
        "What was found over what was claimed, with 95 % interval, turned so that a claim holds to"
        " the right of the dotted line, which is its bound. Each row has the figure itself and the"
        " bound in words. A claim of several parts has a row for each, and is answered at wider"
        " intervals than these. Exact counts are in the list only."
    )
    numbers = Table(
        header=("claim", "part", "found", "bound", "published", "answer"),
        rows=tuple(
            (
                name,
                test.text,
                fmt.interval(test.value, _plain),
                f"{test.relation} {_plain(test.bound)}",
                _plain(test.published),
                str(test.status),
            )
            for name, test in drawn
        ),
    )
    return _chart(Heading("claims", "Claims and their bounds", caption), rows, looks, numbers)


def published_chart(outcome: ExperimentResult) -> Chart | None:
    """Published and measured ratios, each to its table's first row."""
    drawn = [
        (_row_name(found.published), found.ratio, found.our_ratio)
        for found in outcome.published
        if found.ratio and found.our_ratio is not None
    ]
    if not drawn:
        return None
    rows = [
        (
            name,
            f"{fmt.significant(then)} then, {fmt.ratio(now)} now",
            [
                _published_marker(then, then),
                _Marker(now.value, now.low, now.high, OURS, f"ours: {now.text}"),
            ],
        )
        for name, then, now in drawn
    ]
    caption = (
        "Each server over the first one of its table, as it was published and as it is here, ours"
        " with 95 % interval. The figures themselves come from other machines and other years."
    )
    numbers = Table(
        header=("server", "ratio then", "ratio now"),
        rows=tuple((name, fmt.significant(then), now.text) for name, then, now in drawn),
    )
    heading = Heading("published", "Published ratios and ours", caption)
    return _chart(heading, rows, [("ours", OURS)], numbers)


def _chart(
    heading: Heading,
    drawn: Sequence[tuple[str, str, Sequence[_Marker]]],
    looks: Sequence[tuple[str, tuple[str, str, bool]]],
    numbers: Table,
) -> Chart:
    """Markers of (name, label, markers) around 1; published ones are in the legend if any is."""
    markers = [one for _, _, found in drawn for one in found]
    axis = scale([1.0, *(end for one in markers for end in (one.low, one.high))], fmt.times_mark)
    rows = [
        Row(name=name, label=label, marks=svg.NOTHING.join(one.mark(axis) for one in found))
        for name, label, found in drawn
    ]
    is_drawn = any(one.look is PUBLISHED for one in markers)
    entries = [*looks, *([("published", PUBLISHED)] if is_drawn else [])]
    legend = svg.legend(
        [(name, look[0], svg.mark(look[1], 0, is_open=look[2])) for name, look in entries]
    )
    return plots.row_chart(heading, rows, axis, numbers, reference=1.0, legend=legend)


def _named(name: str, tests: Sequence[InequalityResult]) -> list[tuple[str, InequalityResult]]:
    """A claim's parts, numbered if there are several."""
    if len(tests) == 1:
        return [(name, tests[0])]
    return [(f"{name} ({number})", test) for number, test in enumerate(tests, start=1)]


def _value(test: InequalityResult) -> Estimate:
    assert test.value is not None, "only measured ones are drawn"
    return test.value


def _claimed(test: InequalityResult) -> str:
    return f"claimed {test.relation} {_plain(test.bound)}"


def _on_claimed_side(test: InequalityResult, value: float) -> float:
    """The ratio to the bound, above 1 if the claim holds."""
    assert value, "only what is above 0 is drawn"
    assert test.bound, "no bound of a measured figure is 0"
    return test.bound / value if test.relation == "<" else value / test.bound


def _claim_points(test: InequalityResult) -> list[_Marker]:
    found = _value(test)
    low, high = sorted(_on_claimed_side(test, end) for end in (found.low, found.high))
    text = f"{test.text}: {fmt.interval(found, _plain)}, {test.status}"
    ours = _Marker(_on_claimed_side(test, found.value), low, high, MARKERS[test.status], text)
    if not test.published:
        return [ours]
    return [_published_marker(_on_claimed_side(test, test.published), test.published), ours]


def _published_marker(place: float, value: float) -> _Marker:
    return _Marker(place, place, place, PUBLISHED, f"published: {_plain(value)}")


def _plain(value: float | None) -> str:
    return fmt.NOTHING if value is None else fmt.significant(value, 3 if value < 1000 else 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSection:
    name: str
    workload_text: str
    trials: str
    headline: str
    tables: tuple[tuple[str, Table], ...]
    warnings: tuple[str, ...]


def workload_sections(outcome: ExperimentResult) -> tuple[WorkloadSection, ...]:
    """One per workload that was measured, with a table per load with values, and one of targets."""
    return tuple(_section(name, summary) for name, summary in outcome.summaries.items())


def _section(name: str, summary: Summary) -> WorkloadSection:
    shared = " Servers and load generator shared their cores." if summary.run.cores.shared else ""
    loads = [(one.title, one.table) for one in tables.at_loads(summary) if one.table.rows]
    return WorkloadSection(
        name=name,
        workload_text=f"{method.describe_load(summary.run)}.{shared}",
        trials=method.trials(summary),
        headline=_how_it_ended(summary),
        tables=(*loads, ("Every target", tables.facts(summary))),
        warnings=tuple(
            f"{warning.severity}: {warning.title}. {warning.text}" for warning in summary.warnings
        ),
    )


def _how_it_ended(summary: Summary) -> str:
    """Without a ranking by cost, the closed-loop rates."""
    rates = {s.arm.name: s.rate_rps for s in summary.arm_summaries if s.rate_rps is not None}
    ranked = any(p.rank is not None for known in summary.arm_summaries for p in known.points)
    if ranked or len(rates) < len(summary.arm_summaries):
        return summary.headline
    text = ", ".join(f"{name} {fmt.interval(rate, fmt.rate)}" for name, rate in rates.items())
    return f"Closed loop, one target at a time: {text}."
