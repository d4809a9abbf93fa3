import sys

import pytest

from jissoku.measure.comparison import run_header
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import prepare_targets
from jissoku.model import Method
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest, from_argv, to_argv
from tests.measure.conftest import Asks

FLOORS = {Method.PAIRED: 0.004, Method.TIME_SLICED: 0.02}


@pytest.mark.parametrize(("method", "floor"), FLOORS.items())
def test_a_run_takes_the_noise_floor_of_its_own_method(
    asks: Asks, method: Method, floor: float
) -> None:
    config = updated(asks({"one": "", "other": ""}), method=method, noise_floors=FLOORS)
    assert run_header(config).noise_floor == floor


def test_a_method_without_a_noise_floor_has_none(asks: Asks) -> None:
    config = updated(asks({"one": "", "other": ""}), joint_trials=False, noise_floors=FLOORS)
    run = run_header(config)
    assert run.method is Method.SINGLE
    assert run.noise_floor is None


def test_listed_targets_come_before_commands_as_the_record_has_them() -> None:
    """The first one is the baseline, also when the run is measured again."""
    mine = f"mine={sys.executable} -m http.server {{port}}"
    asked = from_argv(["compare", "--cmd", mine, "http-server"])
    assert isinstance(asked, ComparisonRequest)
    assert from_argv(to_argv(asked)) == asked
    arms = prepare_targets(asked, ProgressListener()).arms
    assert [one.arm.name for one in arms] == ["http-server", "mine"]
