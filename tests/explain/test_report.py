"""The cost in an explanation, from constructed observations."""

import pytest

from jissoku.explain import findings
from jissoku.measure.probes import ADD_DELAYS, NO_DELAYS
from jissoku.model.explanation import Explanation, Observations, ProbeFailure, ProcessInfo
from jissoku.model.updated import updated
from jissoku.report.explanation import explanation_to_text
from tests.explain import factories


def shown(observed: Observations) -> str:
    found = findings(observed)
    return explanation_to_text(
        Explanation(target="it", version="1", path="/", observations=observed, findings=found)
    )


def test_a_cost_is_shown_beside_the_floors() -> None:
    assert "CPU time per request: 7.0 µs (estimate)" in shown(factories.QUIET)
    assert "1.4 times the floor" in shown(factories.QUIET)


def test_of_a_target_in_the_kernel_the_total_cpu_is_shown() -> None:
    text = shown(factories.KERNEL)
    assert "unknown for the target alone" in text
    assert "used less than 0.1 µs, and kernel threads used 4.0 µs for it" in text
    # (2 + 1,050 + 400) ms over 100,000 answers.
    assert (
        "Total CPU with load generator and kernel threads: 14.5 µs (estimate); the floor's is 16.0"
        " µs" in text
    )
    assert "0 causes found" in text
    assert "kernel-threads: " in text
    assert " 0.0 µs" not in text


@pytest.mark.parametrize("load", [{"generator_cpu_cores": None}, {"rate_rps_offered": 60_000.0}])
def test_without_the_stopwatchs_time_nothing_is_added_up(load: dict[str, object]) -> None:
    assert factories.KERNEL.load is not None
    seen = updated(factories.KERNEL, load=updated(factories.KERNEL.load, **load))  # type: ignore[arg-type]
    assert "unknown for the target alone" in shown(seen)
    assert "Together" not in shown(seen)


def test_kernel_threads_that_work_for_other_processes_change_nothing() -> None:
    busy = factories.load(generator_cpu_cores=0.7, kernel_cpu_ns=2_000_000_000)
    assert "CPU time per request: 7.0 µs" in shown(busy)
    assert findings(busy) == ()


def test_a_setting_that_removes_two_causes_is_said_once() -> None:
    seen = factories.calls(
        opened={"/srv/a": factories.REQUESTS}, path_queries={"/srv/a": factories.REQUESTS}
    )
    assert seen.load is not None
    nginx = ProcessInfo(pid=1, executable="/usr/sbin/nginx")
    text = shown(updated(seen, load=updated(seen.load, processes=(nginx,))))
    assert text.count("  setting:   open_file_cache max=1000") == 1
    assert text.count("  setting:   as of open-per-request") == 1


def test_what_was_not_observed_is_a_line_each() -> None:
    lost = (
        ProbeFailure(probe="the cost of its timers", reason=NO_DELAYS, hint=ADD_DELAYS),
        ProbeFailure(probe="the floor", reason="it answers / and /42 only", hint="--path /"),
    )
    text = shown(updated(factories.QUIET, failures=lost))
    assert text.endswith(
        "\n\nNot observed: the cost of its timers; no /delay?ms=N answers after N ms."
        " To see it: add that path.\n"
        "Not observed: the floor; it answers / and /42 only. To see it: --path /.\n"
    )
