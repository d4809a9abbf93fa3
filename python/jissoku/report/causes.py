"""What one arm of a pair does more of than the other, where it is proven to use more CPU time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jissoku.model import CounterReadings
from jissoku.model.profile import ProfileDifference
from jissoku.report.explanation import CALLS_MIN
from jissoku.report.profile import difference_cells
from jissoku.report.sanitize import clean
from jissoku.report.tables import Table

# Rows of functions.
FUNCTIONS_MAX = 8

BY_FUNCTION = "--profile breaks the difference down by function."


@dataclass(frozen=True, slots=True)
class Causes:
    """Differences of two arms, as tables and sentences.

    Attributes:
        counts: System calls, connections, segments and bytes per request that differ.
        functions: Functions whose CPU time differs, largest first.
        remarks: What else is known, or why something is not.
    """

    counts: Table
    functions: Table
    remarks: tuple[str, ...]


def causes(
    arm: str,
    against: str,
    readings: Mapping[str, CounterReadings],
    change: ProfileDifference | None,
) -> Causes:
    """Tables of the differences.

    Args:
        arm: That uses more.
        against: That it is compared with.
        readings: Of both, by name.
        change: Of their profiles, `against` first; None if they were not profiled.
    """
    more, less = readings[arm], readings[against]
    reason = more.syscalls_reason or less.syscalls_reason
    counts = () if reason else tuple(_different(more.per_request, less.per_request))
    functions = change.functions if change else ()
    certain = [difference_cells(row) for row in functions if row.is_certain]
    return Causes(
        counts=Table(header=("per request", clean(arm), clean(against)), rows=counts),
        functions=Table(
            header=(
                "µs per request",
                "95 % interval",
                "of all",
                "before",
                "after",
                "function",
                "in",
            ),
            rows=tuple(tuple(map(clean, cells)) for cells in certain[:FUNCTIONS_MAX]),
        ),
        remarks=tuple(_remarks(reason, has_counts=bool(counts), change=change)),
    )


def _different(
    more: Mapping[str, float], less: Mapping[str, float]
) -> Iterator[tuple[str, str, str]]:
    """The largest differences first."""
    values = {name: (more.get(name, 0.0), less.get(name, 0.0)) for name in {*more, *less}}
    ordered = sorted(values.items(), key=lambda one: (-abs(one[1][0] - one[1][1]), one[0]))
    for name, (here, there) in ordered:
        if abs(here - there) >= CALLS_MIN:
            yield clean(name), f"{here:,.2f}", f"{there:,.2f}"


def _remarks(reason: str, *, has_counts: bool, change: ProfileDifference | None) -> Iterator[str]:
    if reason:
        yield f"System calls were not counted: {clean(reason)}."
    elif not has_counts:
        yield "System calls, segments and bytes per request are the same in both."
    if change is None:
        yield BY_FUNCTION
    elif not any(row.is_certain for row in change.functions):
        yield "Samples of both prove a difference of no function."
