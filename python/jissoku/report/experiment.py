"""An experiment's report: the claims first, then their evidence."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from jissoku.model import experiment as model, plural, updated
from jissoku.model.summary import Estimate, Summary, more_blocks
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


def headline(outcome: model.ExperimentResult) -> str:
    counts = Counter(claim.status for claim in outcome.claims)
    several = {model.ClaimStatus.HOLDS: "hold", model.ClaimStatus.FAILS: "do not hold"}
    text = ", ".join(
        f"{counts[one]} {plural(counts[one], one, several.get(one, one))}"
        for one in model.ClaimStatus
        if counts[one]
    )
    begun = "" if outcome.is_finished else "Not run to its end. "
    total = len(outcome.claims)
    return f"{begun}Of {total} {plural(total, 'claim')}: {text}."


def claims(outcome: model.ExperimentResult) -> Table:
    rows = tuple(
        (known.claim.name, known.claim.text, str(known.status), "; ".join(evidence(known)))
        for known in outcome.claims
    )
    return Table(header=("claim", "what it says", "answer", "what it rests on"), rows=rows)


def evidence(known: model.ClaimResult) -> Iterator[str]:
    for test in known.inequalities:
        yield _inequality_text(test)
    yield from known.remarks


def _inequality_text(test: model.InequalityResult) -> str:
    text = test.text
    if test.measured:
        bound = "" if test.bound is None else f" against {test.bound:,.6g}"
        text += f": {_measured(test)}{bound}"
    if test.status is not model.ClaimStatus.HOLDS:
        text += f", {test.status}"
    if test.blocks_needed is not None:
        text += f" ({more_blocks(test.blocks_needed)} would decide)"
    elif test.status is model.ClaimStatus.UNDECIDED and test.value is not None and not test.remarks:
        text += " (no affordable number of blocks would decide)"
    # An answer that a check contradicts is undecided, with the reason in its remarks.
    is_decided = test.status in {model.ClaimStatus.HOLDS, model.ClaimStatus.FAILS}
    doubts = (
        f"{WARNING} {check.name} gives {fmt.ratio(check.ratio)}"
        for check in test.cross_checks
        if is_decided and not check.agrees
    )
    return text + "".join(f" ({remark})" for remark in (*test.remarks, *doubts))


def _measured(test: model.InequalityResult) -> str:
    """A ratio, or a larger value with thousands separators."""
    if test.value is None or test.value.value < 1000:
        return test.measured
    return fmt.interval(test.value, partial(fmt.significant, digits=4))


def published(outcome: model.ExperimentResult) -> Table:
    """Published and measured values, both as ratios to their table's first row."""
    header = ("server", "published", "ratio then", "ours", "ratio now", "remark")
    return Table(header=header, rows=tuple(map(_published, outcome.published)))


def _published(found: model.PublishedComparison) -> tuple[str, ...]:
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


def _row_name(row: model.PublishedFigure) -> str:
    return f"{row.table}: {row.server}" if row.table else row.server


def unobtainable(outcome: model.ExperimentResult) -> Table:
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


def to_json(outcome: model.ExperimentResult) -> str:
    """One object of schema `jissoku.outcome/1`; the workloads' own summaries are in it."""
    return fmt.to_json(updated(outcome, headline=headline(outcome)))


def to_text(outcome: model.ExperimentResult) -> str:
    """For a terminal: claims with their evidence, then published values, then missing servers."""
    return _filled("experiment.txt.j2", outcome)


def brief_text(outcome: model.ExperimentResult) -> str:
    """One screen of an experiment that was interrupted: the claims with an answer."""
    return _filled("experiment_brief.txt.j2", outcome)


def to_markdown(outcome: model.ExperimentResult) -> str:
    """For a repository, next to the records."""
    return _filled("experiment.md.j2", outcome)


def _filled(template: str, outcome: model.ExperimentResult) -> str:
    outcome = sanitized(outcome)
    answered = {model.ClaimStatus.HOLDS, model.ClaimStatus.FAILS}
    text = fmt.filled(
        template,
        tables=(
            ("Claims", claims(outcome)),
            ("Published vs measured", published(outcome)),
            ("Not tested", unobtainable(outcome)),
        ),
        answered=[known for known in outcome.claims if known.status in answered],
        others=[known.claim.name for known in outcome.claims if known.status not in answered],
        wrapped=_wrapped,
        row_text=_row_text,
        **_shared(outcome),
    )
    return text.rstrip("\n") + "\n"


def _row_text(table: Table, row: Sequence[str]) -> str:
    text = [
        cell if name in UNLABELLED_COLUMNS else f"{name} {cell}"
        for name, cell in zip(table.header[1:], row[1:], strict=True)
        if cell not in {"", fmt.NOTHING}
    ]
    return f"{row[0]}: {', '.join(text)}"


def _wrapped(text: str, first: str, rest: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def _shared(outcome: model.ExperimentResult) -> dict[str, Any]:
    experiment = outcome.header.experiment
    summaries = list(outcome.summaries.values())
    return {
        "experiment": experiment,
        "description": experiment.description.strip().split("\n\n"),
        "headline": headline(outcome),
        "claims": [(known, list(evidence(known))) for known in outcome.claims],
        "parts": [_section(*one) for one in outcome.summaries.items()],
        "machine": method.machine(summaries[0].run) if summaries else (),
    }


def to_html(outcome: model.ExperimentResult) -> str:
    outcome = sanitized(outcome)
    return page.render(
        "experiment.html.j2",
        figures=[one for one in (claims_chart(outcome), published_chart(outcome)) if one],
        published=published(outcome),
        absent=unobtainable(outcome),
        arms=_arms(outcome),
        **_shared(outcome),
    )


def _arms(outcome: model.ExperimentResult) -> list[tuple[str, str, str]]:
    found: dict[str, tuple[str, str, str]] = {}
    for summary in outcome.summaries.values():
        for arm in summary.run.arms:
            found.setdefault(arm.name, (arm.name, arm.version, arm.description))
    return list(found.values())


# Class, shape and whether it is open: also distinguishable without colours.
MARKERS = {
    model.ClaimStatus.HOLDS: ("holds", "dot", False),
    model.ClaimStatus.FAILS: ("fails", "crossed", False),
    model.ClaimStatus.UNDECIDED: ("undecided", "dot", True),
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


def claims_chart(outcome: model.ExperimentResult) -> Chart | None:
    drawn = [
        (name, test, test.value)
        for known in outcome.claims
        for name, test in _named(known.claim.name, known.inequalities)
        if test.value is not None and test.bound and test.status in MARKERS
    ]
    if not drawn:
        return None
    rows = [
        (
            name,
            f"{_plain(found.value)}, claimed {test.relation} {_plain(test.bound)}",
            _claim_points(test, found),
        )
        for name, test, found in drawn
    ]
    met = {test.status for _, test, _ in drawn}
    looks = [(str(one), look) for one, look in MARKERS.items() if one in met]
    numbers = Table(
        header=("claim", "part", "found", "bound", "published", "answer"),
        rows=tuple(
            (
                name,
                test.text,
                fmt.interval(found, _plain),
                f"{test.relation} {_plain(test.bound)}",
                _plain(test.published),
                str(test.status),
            )
            for name, test, found in drawn
        ),
    )
    return _chart(plots.heading("claims"), rows, looks, numbers)


def published_chart(outcome: model.ExperimentResult) -> Chart | None:
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
    numbers = Table(
        header=("server", "ratio then", "ratio now"),
        rows=tuple((name, fmt.significant(then), now.text) for name, then, now in drawn),
    )
    return _chart(plots.heading("published"), rows, [("ours", OURS)], numbers)


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


def _named(
    name: str, tests: Sequence[model.InequalityResult]
) -> list[tuple[str, model.InequalityResult]]:
    if len(tests) == 1:
        return [(name, tests[0])]
    return [(f"{name} ({number})", test) for number, test in enumerate(tests, start=1)]


def _on_claimed_side(test: model.InequalityResult, value: float) -> float:
    """The ratio to the bound, above 1 if the claim holds."""
    assert value, "only what is above 0 is drawn"
    assert test.bound, "no bound of a measured figure is 0"
    return test.bound / value if test.relation == "<" else value / test.bound


def _claim_points(test: model.InequalityResult, found: Estimate) -> list[_Marker]:
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


def _section(name: str, summary: Summary) -> dict[str, object]:
    """What a report shows of a workload."""
    shared = " Servers and load generator shared their cores." if summary.run.cores.shared else ""
    loads = [(one.title, one.table) for one in tables.at_loads(summary) if one.table.rows]
    return {
        "name": name,
        "workload_text": f"{method.describe_load(summary.run)}.{shared}",
        "trials": method.trials(summary),
        "headline": _how_it_ended(summary),
        "tables": (*loads, ("Every target", tables.facts(summary))),
        "warnings": [f"{one.severity}: {one.title}. {one.text}" for one in summary.warnings],
    }


def _how_it_ended(summary: Summary) -> str:
    """Without a ranking by cost, the closed-loop rates."""
    rates = {s.arm.name: s.rate_rps for s in summary.arm_summaries if s.rate_rps is not None}
    ranked = any(p.rank is not None for known in summary.arm_summaries for p in known.points)
    if ranked or len(rates) < len(summary.arm_summaries):
        return summary.headline
    text = ", ".join(f"{name} {fmt.interval(rate, fmt.rate)}" for name, rate in rates.items())
    return f"Closed loop, one target at a time: {text}."
