"""An experiment's charts: its claims and their bounds, and published and measured ratios."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jissoku.model import Summary
from jissoku.model.experiment import (
    ClaimStatus,
    ExperimentResult,
    InequalityResult,
    PublishedComparison,
)
from jissoku.report import format as fmt, method, row_plots, svg, tables
from jissoku.report.row_plots import Row
from jissoku.report.svg import Chart, Scale, scale
from jissoku.report.tables import Table

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


def claims(outcome: ExperimentResult) -> Chart | None:
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
        drawing=_legend(looks, points) + row_plots.draw("claims", rows, axis, reference=1.0),
        numbers=_numbers(drawn),
    )


def published(outcome: ExperimentResult) -> Chart | None:
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
        + row_plots.draw("published", rows, axis, reference=1.0),
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
    return [_published(_on_claimed_side(test, test.published), test.published), ours]


def _ratio_points(found: PublishedComparison) -> list[_Marker]:
    ours = found.our_ratio
    assert ours is not None, "only measured ones are drawn"
    assert found.ratio, "only published ones are drawn"
    measured = _Marker(ours.value, ours.low, ours.high, OURS, f"ours: {ours.text}")
    return [_published(found.ratio, found.ratio), measured]


def _published(place: float, value: float) -> _Marker:
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
