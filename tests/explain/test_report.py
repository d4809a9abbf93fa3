"""What an explanation says of the cost, from made-up observations."""

from dataclasses import replace

import pytest

from jissoku.explain import findings
from jissoku.model.finding import Explanation
from jissoku.model.observed import Observed
from jissoku.report.explanation import to_text
from tests.explain import made


def told(observed: Observed) -> str:
    found = findings(observed)
    return to_text(
        Explanation(target="it", version="1", path="/", observed=observed, findings=found)
    )


def test_a_cost_is_told_beside_the_floors() -> None:
    assert "CPU time per request: 7.0 µs at a glance" in told(made.QUIET)
    assert "1.4 times the floor" in told(made.QUIET)


def test_of_a_target_in_the_kernel_the_cost_together_is_told() -> None:
    text = told(made.KERNEL)
    assert "not known of the target alone" in text
    assert "used less than 0.1 µs, and the kernel's threads 4.0 µs in their place" in text
    # (2 + 1,050 + 400) ms over 100,000 answers.
    assert "Together with the stopwatch: 14.5 µs at a glance; the floor's is 16.0 µs" in text
    assert "0 causes found" in text
    assert "kernel-threads: " in text
    assert " 0.0 µs" not in text


@pytest.mark.parametrize("load", [{"generator_cores": None}, {"rate_rps_offered": 60_000.0}])
def test_without_the_stopwatchs_time_nothing_is_added_up(load: dict[str, object]) -> None:
    assert made.KERNEL.load is not None
    seen = replace(made.KERNEL, load=replace(made.KERNEL.load, **load))  # type: ignore[arg-type]
    assert "not known of the target alone" in told(seen)
    assert "Together" not in told(seen)


def test_kernel_threads_that_work_for_somebody_else_change_nothing() -> None:
    busy = made.load(generator_cores=0.7, kernel_cpu_ns=2_000_000_000)
    assert "CPU time per request: 7.0 µs" in told(busy)
    assert findings(busy) == ()
