import pytest

from jissoku.inference import contradicted
from jissoku.model import Method
from tests.inference import factories
from tests.inference.factories import QUIETEST, TrueValues


def found(alone: float, other_turn: float, method: Method) -> list[tuple[str, str, int | None]]:
    run = factories.sliced(["a", "b", "c"], method=method)
    known = {
        "a": TrueValues(cost_ns=5000),
        "b": TrueValues(cost_ns=5500, alone=alone, other_turn=other_turn),
        "c": TrueValues(cost_ns=6000),
    }
    comparisons = contradicted(run, factories.trials(run, known, noise=QUIETEST))
    return [(one.arm, one.against, one.load.rate_rps) for one in comparisons]


@pytest.mark.parametrize(("alone", "other_turn"), [(0.7, 1.0), (1.0, 0.7), (1.4, 1.0)])
def test_every_pair_with_a_check_that_does_not_agree_is_found(
    alone: float, other_turn: float
) -> None:
    pairs = {(arm, against) for arm, against, _ in found(alone, other_turn, Method.TIME_SLICED)}
    assert pairs == {("b", "a"), ("c", "b")}


def test_none_is_found_where_all_agree() -> None:
    assert found(1.0, 1.0, Method.TIME_SLICED) == []


def test_arms_that_were_measured_alone_have_no_check() -> None:
    run = factories.run(["a", "b"], method=Method.SINGLE)
    known = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5500, alone=0.7)}
    assert contradicted(run, factories.trials(run, known, solo_blocks=9)) == ()
    assert contradicted(run, ()) == ()
