import pytest
from hypothesis import given, strategies as st

from jissoku.design.schedule import LEVELS_MIN, level_block, levels_of, rates_of, validated_levels
from jissoku.errors import InputError
from jissoku.model import Axis, TrialKind


@pytest.mark.parametrize("cores", [1, 2, 6, 8, 24, 96])
def test_workers_reach_the_last_core_and_are_enough_for_a_fit(cores: int) -> None:
    found = levels_of(Axis.WORKERS, cores)
    assert found == validated_levels(found)
    assert found[0] == 1
    assert found[-1] == max(cores, LEVELS_MIN)
    assert len(found) <= 16


def test_connections_are_enough_for_a_fit() -> None:
    assert len(validated_levels(levels_of(Axis.CONNECTIONS, 1))) >= LEVELS_MIN


@given(st.dictionaries(st.text(min_size=1), st.floats(500, 1e6), min_size=1))
def test_rates_are_common_and_go_beyond_the_slowest(capacities: dict[str, float]) -> None:
    found = rates_of(capacities)
    assert len(found) >= LEVELS_MIN
    assert list(found) == sorted(set(found))
    assert found[0] < 0.11 * min(capacities.values())
    assert found[-1] > 1.04 * min(capacities.values())


@pytest.mark.parametrize(
    ("levels", "why"),
    [((1, 2, 3), "gives 3"), ((1, 2, 3, 4, 5, 5), "twice"), ((0, 1, 2, 3, 4, 5), "from 1")],
)
def test_levels_that_make_no_fit_are_refused(levels: tuple[int, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        validated_levels(levels)


def test_a_block_holds_every_cell_once_in_an_order_of_its_own() -> None:
    names, levels = ("a", "b"), (1, 2, 4, 8, 16, 32)
    orders = []
    for index in range(4):
        found = list(level_block(index, names, levels, TrialKind.CLOSED_LOOP, seed=7))
        assert found == list(level_block(index, names, levels, TrialKind.CLOSED_LOOP, seed=7))
        cells = [(planned.arms[0], level) for planned, level in found]
        assert sorted(cells) == [(name, level) for name in names for level in levels]
        orders.append(tuple(cells))
    assert len(set(orders)) == 4
