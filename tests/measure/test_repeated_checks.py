from collections import Counter

import pytest

from jissoku.design.schedule import PlannedStart
from jissoku.measure.comparison_run import measurements, repeated_checks
from jissoku.model import Comparison, Load, Method, Run, TrialKind, Verdict
from jissoku.model.updated import updated
from tests.inference import factories
from tests.measure.conftest import BRIEF

PLAN = updated(BRIEF, repeated_check_blocks=3)
FIRST = 7


def contradicted(load: Load) -> Comparison:
    return Comparison(arm="c", against="a", verdict=Verdict.DISPUTED, load=load)


def repeats_of(run: Run) -> list[PlannedStart]:
    return repeated_checks(run, PLAN, [contradicted(run.loads[0])], FIRST)


def of_kind(found: list[PlannedStart], kind: TrialKind) -> list[PlannedStart]:
    return [start for start in found if start.planned.kind is kind]


@pytest.mark.parametrize("method", [Method.TIME_SLICED, Method.PAIRED])
def test_further_blocks_have_the_arms_and_loads_that_are_contradicted(method: Method) -> None:
    run = factories.sliced(["a", "b", "c"], method=method)
    found = repeats_of(run)
    assert {start.planned.block for start in found} == {7, 8, 9}
    assert {start.loads for start in found} == {run.loads[:1]}
    sliced, alone = of_kind(found, TrialKind.TIME_SLICED), of_kind(found, TrialKind.FIXED_RATE)
    assert [sorted(start.planned.arms) for start in sliced] == [["a", "c"]] * 3
    assert Counter(start.planned.arms for start in alone) == {("a",): 3, ("c",): 3}


@pytest.mark.parametrize(
    ("method", "is_check"), [(Method.TIME_SLICED, True), (Method.PAIRED, False)]
)
def test_only_what_is_a_check_of_the_method_is_measured(method: Method, *, is_check: bool) -> None:
    run = factories.sliced(["a", "b", "c"], method=method)
    for start in of_kind(repeats_of(run), TrialKind.TIME_SLICED):
        (one,) = measurements(start)
        assert (one.load, one.is_check) == (run.loads[0], is_check)


def test_nothing_is_repeated_where_nothing_is_contradicted() -> None:
    run = factories.sliced(["a", "b"])
    assert repeated_checks(run, PLAN, (), FIRST) == []
    none = updated(PLAN, repeated_check_blocks=0)
    assert repeated_checks(run, none, [contradicted(run.loads[0])], FIRST) == []
