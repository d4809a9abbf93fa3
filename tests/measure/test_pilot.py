"""The pilot of a tuning: how many connections a target answers with room, and why it does not."""

import pytest

from jissoku.errors import TargetError
from jissoku.measure.pilot import WAIT_MAX_NS, objection, pilot
from jissoku.model import ArmMeasurement
from jissoku.model.updated import updated
from jissoku.system.interruption import Interruption
from tests.inference import factories
from tests.measure.conftest import Asks

MEASURED = factories.arm_measurement("it")
SLOW = updated(MEASURED, latency_ns=updated(MEASURED.latency_ns, p50=WAIT_MAX_NS + 1))

ONE_AT_A_TIME = """
import time
class Server(http.server.HTTPServer):
    request_queue_size = 100
def answer(count):
    time.sleep(0.02)
    return b"Hello, World!"
"""
SILENT_UNDER_LOAD = """
import time
def answer(count):
    time.sleep(0 if count < 6 else 60)
    return b"Hello, World!"
"""


@pytest.mark.parametrize(
    ("measurement", "overflows", "connections", "said"),
    [
        (MEASURED, 0, 64, ""),
        (updated(MEASURED, errors={"timeout": 0}), None, 64, ""),
        (updated(MEASURED, errors={"timeout": 2}), 0, 1, "errors: 2 timeout"),
        (MEASURED, 1, 64, "its listen queue overflowed once"),
        (MEASURED, 1, 1, ""),
        (updated(MEASURED, listen_drops=2), 0, 64, "its listen queue overflowed 2 times"),
        (updated(MEASURED, listen_drops=0), 5, 64, ""),
        (updated(MEASURED, requests=900), 0, 64, "900 of 20000 requests were answered in time"),
        (SLOW, 0, 64, "half of the requests wait more than 250 ms"),
        (SLOW, 0, 1, ""),
    ],
)
def test_what_speaks_against_a_number_of_connections(
    measurement: ArmMeasurement, overflows: int | None, connections: int, said: str
) -> None:
    seen = updated(factories.QUIET, listen_overflows=overflows)
    assert objection(measurement, seen, connections) == said


@pytest.mark.slow
def test_a_server_that_works_off_one_request_at_a_time_gets_fewer_connections(asks: Asks) -> None:
    config = asks({"one": ONE_AT_A_TIME})
    workload = updated(config.workload, connections=64)
    with Interruption() as interruption:
        found = pilot(config.arms_prepared[0].prepared, workload, config.cores, 1, interruption)
    assert 1 <= found.connections <= 16
    assert found.remark.startswith("64 connections are too many for one: ")
    assert found.paired_window_ns > 1_000_000_000, "requests are few"
    assert found.requests_counted < 400
    assert found.generator_headroom is not None
    assert found.generator_headroom > 1


@pytest.mark.slow
def test_a_target_that_does_not_answer_under_load_is_an_error_with_its_reason(asks: Asks) -> None:
    config = asks({"one": SILENT_UNDER_LOAD})
    with Interruption() as interruption, pytest.raises(TargetError, match="one cannot be measured"):
        pilot(config.arms_prepared[0].prepared, config.workload, config.cores, 1, interruption)


@pytest.mark.slow
def test_a_target_that_ends_is_an_error_with_its_words(asks: Asks) -> None:
    config = asks({"one": "sys.exit('no database')"})
    with Interruption() as interruption, pytest.raises(TargetError, match="exited") as caught:
        pilot(config.arms_prepared[0].prepared, config.workload, config.cores, 1, interruption)
    assert "no database" in caught.value.stderr
