"""Ranks as a table: which pairs differ, and the resulting ranks."""

import pytest
from hypothesis import given, strategies as st

from jissoku.inference.sentences import ranks

TABLE = [
    ("abc", "ab ac bc", [1, 2, 3]),
    ("abc", "", [1, 1, 1]),
    ("abc", "ac bc", [1, 1, 3]),
    ("abc", "ab ac", [1, 2, 2]),
    ("abc", "ac", [1, 1, 2]),  # b may be equal to either
    ("abc", "ab bc", [1, 2, 3]),  # a is better than c, as b is between them
    ("abcd", "ac ad bc bd", [1, 1, 3, 3]),
    ("abcd", "ad", [1, 1, 1, 2]),
    ("a", "", [1]),
    ("", "", []),
]


@pytest.mark.parametrize(("ordered", "apart", "expected"), TABLE)
def test_arms_with_as_many_better_ones_share_a_rank(
    ordered: str, apart: str, expected: list[int]
) -> None:
    known = {frozenset(pair) for pair in apart.split()}
    found = ranks(list(ordered), lambda a, b: frozenset((a, b)) in known)
    assert [found[name] for name in ordered] == expected


PAIRS = st.sets(st.sampled_from(["ab", "ac", "ad", "bc", "bd", "cd"]))


@given(PAIRS)
def test_ranks_follow_proven_comparisons(apart: set[str]) -> None:
    found = ranks("abcd", lambda a, b: a + b in apart)
    assert all(found[pair[0]] < found[pair[1]] for pair in apart)


@given(PAIRS)
def test_a_rank_counts_the_arms_that_are_proven_to_be_better(apart: set[str]) -> None:
    found = ranks("abcd", lambda a, b: a + b in apart)
    for name in "abcd":
        reached, new = set[str](), {name}
        while new:
            new = {pair[0] for pair in apart if pair[1] in new} - reached
            reached |= new
        assert found[name] == 1 + len(reached)
