"""Where the difference of two profiles comes from.

Each function's CPU time per request is a share of samples times a measured time, so the variance of
a difference is the sum of two binomial ones; 95 % intervals are normal (z = 1.96).
"""

from collections.abc import Sequence

from jissoku.model.profile_summary import (
    DifferenceRow,
    ProfileDifference,
    ProfileRow,
    ProfileSummary,
)
from jissoku.stats.profile import Z

# A smaller difference is not divided: parts of nearly nothing are of any size.
DIFFERENCE_MIN = 0.01

Key = tuple[str, str]


def difference(first: ProfileSummary, second: ProfileSummary) -> ProfileDifference:
    """The second less the first, by part, library and function."""
    whole = second.total_ns - first.total_ns
    is_divisible = abs(whole) >= DIFFERENCE_MIN * first.total_ns
    divisor = whole if is_divisible else None
    functions = _rows(first.functions, second.functions, divisor)
    return ProfileDifference(
        first=first,
        second=second,
        difference_ns=whole,
        parts=_rows(first.parts, second.parts, divisor),
        libraries=_rows(first.libraries, second.libraries, divisor),
        functions=functions,
        unexplained_ns=whole - sum(row.difference_ns for row in functions if row.is_certain),
    )


def _rows(
    first: Sequence[ProfileRow], second: Sequence[ProfileRow], whole: float | None
) -> tuple[DifferenceRow, ...]:
    left = {(row.name, row.place): row for row in first}
    right = {(row.name, row.place): row for row in second}
    rows = [_row(key, left.get(key), right.get(key), whole) for key in {**left, **right}]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name, row.place)))


def _row(
    key: Key, first: ProfileRow | None, second: ProfileRow | None, whole: float | None
) -> DifferenceRow:
    before, after = (row.ns if row else 0.0 for row in (first, second))
    change = after - before
    error = Z * (_variance(first) + _variance(second)) ** 0.5
    return DifferenceRow(
        name=key[0],
        place=key[1],
        ns=(before, after),
        difference_ns=change,
        low_ns=change - error,
        high_ns=change + error,
        part=change / whole if whole else None,
    )


def _variance(row: ProfileRow | None) -> float:
    """From the width of Wilson's interval, which is right for few samples too."""
    return ((row.ns_high - row.ns_low) / (2 * Z)) ** 2 if row else 0.0
