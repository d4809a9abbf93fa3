import pytest

from jissoku.measure.comparison import run_header
from jissoku.model import Method
from jissoku.model.updated import updated
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
