"""Ranks as a table: which pairs differ, and the resulting ranks."""

import pytest
from hypothesis import given, strategies as st

from jissoku.stats.ranking import ranks

TABLE = [
    ("abc", "ab ac bc", [1, 2, 3]),
    ("abc", "", [1, 1, 1]),
    ("abc", "ac bc", [1, 1, 3]),
    ("abc", "ab ac", [1, 2, 2]),
    ("abc", "ac", [1, 1, 1]),  # b is like both: no line can be drawn
    ("abcd", "ac ad bc bd", [1, 1, 3, 3]),
    ("a", "", [1]),
    ("", "", []),
]


@pytest.mark.parametrize(("ordered", "apart", "expected"), TABLE)
def test_arms_that_are_not_separable_share_a_rank(
    ordered: str, apart: str, expected: list[int]
) -> None:
    known = {frozenset(pair) for pair in apart.split()}
    found = ranks(list(ordered), lambda a, b: frozenset((a, b)) in known)
    assert [found[name] for name in ordered] == expected


@given(st.sets(st.sampled_from(["ab", "ac", "ad", "bc", "bd", "cd"])))
def test_different_ranks_are_always_proven(apart: set[str]) -> None:
    found = ranks("abcd", lambda a, b: a + b in apart or b + a in apart)
    for one in "abcd":
        for other in "abcd":
            if found[one] < found[other]:
                assert one + other in apart or other + one in apart
