"""An experiment's report: the claims first, then their evidence."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from markupsafe import Markup

from jissoku.model import Summary, more_blocks
from jissoku.model.experiment import (
    ClaimResult,
    ClaimStatus,
    ExperimentResult,
    InequalityResult,
    PublishedComparison,
)
from jissoku.report import format as fmt, method, page, plots, svg, tables
from jissoku.report.format import Table, escape, rounded, sanitized, table_lines
from jissoku.report.plots import Row
from jissoku.report.svg import Chart, Scale, scale
from jissoku.report.verdicts import WARNING

WIDTH = 100

# Metrics in nanoseconds.
TIMES = ("cost", "p50", "p95", "p99", "p999")

# Columns whose cells are sentences, which are shown without the column's name.
UNLABELLED_COLUMNS = {"why", "remark"}


def headline(outcome: ExperimentResult) -> str:
    counts = dict.fromkeys(ClaimStatus, 0)
    for claim in outcome.claims:
        counts[claim.status] += 1
    text = [f"{count} {_verb(one, count)}" for one, count in counts.items() if count]
    total = len(outcome.claims)
    begun = "" if outcome.is_finished else "Not run to its end. "
    return f"{begun}Of {total} {'claim' if total == 1 else 'claims'}: {', '.join(text)}."


def _verb(answer: ClaimStatus, count: int) -> str:
    several = {ClaimStatus.HOLDS: "hold", ClaimStatus.FAILS: "do not hold"}
    return str(answer) if count == 1 else several.get(answer, str(answer))


def claims(outcome: ExperimentResult) -> Table:
    """One row per claim."""
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
    value = test.value
    low, high = fmt.significant(value.low, 4), fmt.significant(value.high, 4)
    return f"{fmt.significant(value.value, 4)} [{low}, {high}]"


def published(outcome: ExperimentResult) -> Table:
    """Published and measured values, both as ratios to their table's first row."""
    header = ("server", "published", "ratio then", "ours", "ratio now", "remark")
    return Table(header=header, rows=tuple(map(_published, outcome.published)))


def _published(found: PublishedComparison) -> tuple[str, ...]:
    row = found.published
    unit = {"rate": fmt.rate} | dict.fromkeys(TIMES, fmt.duration)
    metric = row.quantity.partition("(")[0]
    ours = fmt.NOTHING
    if found.ours is not None:
        ours = unit.get(metric, fmt.significant)(found.ours.value)
    remark = "; ".join(part for part in (row.note, found.remark) if part)
    name = f"{row.table}: {row.server}" if row.table else row.server
    return (
        name,
        f"{row.value:,g} {row.unit}",
        fmt.NOTHING if found.ratio is None else fmt.significant(found.ratio),
        ours,
        fmt.NOTHING if found.our_ratio is None else found.our_ratio.text,
        remark,
    )


def unobtainable(outcome: ExperimentResult) -> Table:
    """Servers that were not measured: unobtainable ones, and those missing here."""
    rows = [
        (one.name, one.reason, one.substitute or fmt.NOTHING)
        for one in outcome.header.experiment.unobtainable
    ]
    rows += [
        (one.name, f"{one.reason}; to add it: {one.install_hint}", fmt.NOTHING)
        for one in outcome.header.unavailable
    ]
    rows += [
        (f"workload {name}", reason, fmt.NOTHING) for name, reason in outcome.header.skipped.items()
    ]
    return Table(header=("not here", "why", "in its place"), rows=tuple(rows))


def to_json(outcome: ExperimentResult) -> str:
    """One object of schema `jissoku.outcome/1`; the workloads' own summaries are in it."""
    plain = msgspec.to_builtins(sanitized(outcome))
    plain["headline"] = headline(outcome)
    plain["summaries"] = {k: msgspec.to_builtins(v) for k, v in outcome.summaries.items()}
    text = msgspec.json.format(msgspec.json.encode(rounded(plain), order="deterministic"), indent=2)
    return text.decode() + "\n"


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


def _wrapped(text: str, first: str, rest: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def to_markdown(outcome: ExperimentResult) -> str:
    """For a repository, next to the records."""
    return "\n".join(_markdown(sanitized(outcome))).rstrip("\n") + "\n"


def _markdown(outcome: ExperimentResult) -> Iterator[str]:
    experiment = outcome.header.experiment
    yield f"# {escape(experiment.title)}"
    yield ""
    yield f"**{escape(headline(outcome))}**"
    yield ""
    for paragraph in experiment.description.strip().split("\n\n"):
        yield escape(paragraph)
        yield ""
    if experiment.source:
        year = f" ({experiment.year})" if experiment.year else ""
        yield f"Original: {escape(experiment.source)}{year}."
        yield ""
    for title, table in (
        ("Claims", claims(outcome)),
        ("Published vs measured", published(outcome)),
        ("Not tested", unobtainable(outcome)),
    ):
        if table.rows:
            yield f"## {title}"
            yield ""
            yield from table_lines(table)
    for part in workload_sections(outcome):
        yield f"## {escape(part.name)}"
        yield ""
        yield escape(f"{part.workload_text} {part.trials}.")
        yield ""
        for title, numbers in part.tables:
            yield f"**{escape(title)}**"
            yield ""
            yield from table_lines(numbers)
        yield from (f"- {escape(warning)}" for warning in part.warnings)
        yield ""
    for name, value in _machine(outcome):
        yield f"- {name}: {escape(value)}"


def _machine(outcome: ExperimentResult) -> tuple[tuple[str, str], ...]:
    for summary in outcome.summaries.values():
        return method.machine(summary.run)
    return ()


def to_html(outcome: ExperimentResult) -> str:
    """One self-contained page."""
    outcome = sanitized(outcome)
    figures = [one for one in (claims_chart(outcome), published_chart(outcome)) if one]
    return page.render(
        "experiment.html.j2",
        figures=figures,
        experiment=outcome.header.experiment,
        description=outcome.header.experiment.description.strip().split("\n\n"),
        headline=headline(outcome),
        claims=[(known, list(evidence(known))) for known in outcome.claims],
        published=published(outcome),
        absent=unobtainable(outcome),
        parts=workload_sections(outcome),
        arms=_arms(outcome),
        machine=_machine(outcome),
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

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def mark(self, axis: Scale) -> Markup:
        """The mark with its interval, and its text as a tooltip."""
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
    points = [_claim_points(test) for _, test in drawn]
    axis = _axis(points)
    rows = [
        _row(name, _found(test), found, axis)
        for (name, test), found in zip(drawn, points, strict=True)
    ]
    met = {test.status for _, test in drawn}
    looks = [(str(one), look) for one, look in MARKERS.items() if one in met]
    caption = (
        "What was found over what was claimed, with 95 % interval, turned so that a claim holds to"
        " the right of the dotted line, which is its bound. Each row has the figure itself and the"
        " bound in words. A claim of several parts has a row for each, and is answered at wider"
        " intervals than these. Exact counts are in the list only."
    )
    return Chart(
        name="claims",
        title="Claims and their bounds",
        caption=caption,
        drawing=_legend(looks, points) + plots.draw_rows("claims", rows, axis, reference=1.0),
        numbers=_numbers(drawn),
    )


def published_chart(outcome: ExperimentResult) -> Chart | None:
    """Published and measured ratios, each to its table's first row."""
    drawn = [
        (found, _ratio_points(found))
        for found in outcome.published
        if found.ratio and found.our_ratio is not None
    ]
    if not drawn:
        return None
    names = [
        f"{one.table}: {one.server}" if one.table else one.server
        for one in (found.published for found, _ in drawn)
    ]
    points = [found for _, found in drawn]
    axis = _axis(points)
    rows = [
        _row(
            name,
            f"{fmt.significant(found.ratio or 0)} then, {fmt.ratio(found.our_ratio)} now",
            marks,
            axis,
        )
        for name, (found, marks) in zip(names, drawn, strict=True)
    ]
    caption = (
        "Each server over the first one of its table, as it was published and as it is here, ours"
        " with 95 % interval. The figures themselves come from other machines and other years."
    )
    numbers = Table(
        header=("server", "ratio then", "ratio now"),
        rows=tuple(
            (name, fmt.significant(found.ratio or 0), found.our_ratio.text)
            for name, (found, _) in zip(names, drawn, strict=True)
            if found.our_ratio is not None
        ),
    )
    return Chart(
        name="published",
        title="Published ratios and ours",
        caption=caption,
        drawing=_legend([("ours", OURS)], points)
        + plots.draw_rows("published", rows, axis, reference=1.0),
        numbers=numbers,
    )


def _named(name: str, tests: Sequence[InequalityResult]) -> list[tuple[str, InequalityResult]]:
    """A claim's parts, numbered if there are several."""
    if len(tests) == 1:
        return [(name, tests[0])]
    return [(f"{name} ({number})", test) for number, test in enumerate(tests, start=1)]


def _on_claimed_side(test: InequalityResult, value: float | None) -> float:
    """The ratio to the bound, above 1 if the claim holds."""
    assert value, "only what is above 0 is drawn"
    assert test.bound, "no bound of a measured figure is 0"
    return test.bound / value if test.relation == "<" else value / test.bound


def _claim_points(test: InequalityResult) -> list[_Marker]:
    assert test.value is not None, "only measured ones are drawn"
    low, high = sorted(_on_claimed_side(test, end) for end in (test.value.low, test.value.high))
    value = _on_claimed_side(test, test.value.value)
    text = f"{test.text}: {_with_interval(test)}, {test.status}"
    ours = _Marker(value, low, high, MARKERS[test.status], text)
    if not test.published:
        return [ours]
    return [_published_marker(_on_claimed_side(test, test.published), test.published), ours]


def _ratio_points(found: PublishedComparison) -> list[_Marker]:
    ours = found.our_ratio
    assert ours is not None, "only measured ones are drawn"
    assert found.ratio, "only published ones are drawn"
    measured = _Marker(ours.value, ours.low, ours.high, OURS, f"ours: {ours.text}")
    return [_published_marker(found.ratio, found.ratio), measured]


def _published_marker(place: float, value: float) -> _Marker:
    return _Marker(place, place, place, PUBLISHED, f"published: {_plain(value)}")


def _axis(points: Sequence[Sequence[_Marker]]) -> Scale:
    return scale([1.0, *(end for row in points for one in row for end in one.ends)], _times)


def _row(name: str, label: str, points: Sequence[_Marker], axis: Scale) -> Row:
    return Row(name=name, label=label, marks=svg.NOTHING.join(one.mark(axis) for one in points))


def _legend(
    looks: Sequence[tuple[str, tuple[str, str, bool]]], points: Sequence[Sequence[_Marker]]
) -> Markup:
    """The legend; published values are in it if any is drawn."""
    is_drawn = any(one.look is PUBLISHED for row in points for one in row)
    entries = [*looks, *([("published", PUBLISHED)] if is_drawn else [])]
    return svg.legend(
        [(name, look[0], svg.mark(look[1], 0, is_open=look[2])) for name, look in entries]
    )


def _numbers(drawn: Sequence[tuple[str, InequalityResult]]) -> Table:
    return Table(
        header=("claim", "part", "found", "bound", "published", "answer"),
        rows=tuple(
            (
                name,
                test.text,
                _with_interval(test),
                f"{test.relation} {_plain(test.bound)}",
                _plain(test.published),
                str(test.status),
            )
            for name, test in drawn
        ),
    )


def _found(test: InequalityResult) -> str:
    value = _plain(test.value.value if test.value else None)
    return f"{value}, claimed {test.relation} {_plain(test.bound)}"


def _with_interval(test: InequalityResult) -> str:
    assert test.value is not None, "only measured ones are drawn"
    value, low, high = map(_plain, (test.value.value, test.value.low, test.value.high))
    return f"{value} [{low}, {high}]"


def _plain(value: float | None) -> str:
    return fmt.NOTHING if value is None else fmt.significant(value, 3 if value < 1000 else 4)


def _times(value: float) -> str:
    return f"{value:g} {fmt.TIMES}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSection:
    name: str
    workload_text: str
    trials: str
    headline: str
    tables: tuple[tuple[str, Table], ...]
    warnings: tuple[str, ...]


def workload_sections(outcome: ExperimentResult) -> tuple[WorkloadSection, ...]:
    """One per workload that was measured."""
    return tuple(_part(name, summary) for name, summary in outcome.summaries.items())


def _part(name: str, summary: Summary) -> WorkloadSection:
    shared = " Servers and load generator shared their cores." if summary.run.cores.shared else ""
    return WorkloadSection(
        name=name,
        workload_text=f"{method.describe_load(summary.run)}.{shared}",
        trials=method.trials(summary),
        headline=_how_it_ended(summary),
        tables=_tables(summary),
        warnings=tuple(
            f"{warning.severity}: {warning.title}. {warning.text}" for warning in summary.warnings
        ),
    )


def _tables(summary: Summary) -> tuple[tuple[str, Table], ...]:
    """One table per load with values, then values that do not depend on a load."""
    loads = [(one.title, one.table) for one in tables.at_loads(summary) if one.table.rows]
    return (*loads, ("Every target", tables.facts(summary)))


def _how_it_ended(summary: Summary) -> str:
    """Without a ranking by cost, the closed-loop rates."""
    rates = {s.arm.name: s.rate_rps for s in summary.arm_summaries if s.rate_rps is not None}
    ranked = any(p.rank is not None for known in summary.arm_summaries for p in known.points)
    if ranked or len(rates) < len(summary.arm_summaries):
        return summary.headline
    text = ", ".join(f"{name} {fmt.interval(rate, 'rate')}" for name, rate in rates.items())
    return f"Closed loop, one target at a time: {text}."
