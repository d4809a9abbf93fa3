"""Each rule against what was never seen, but might have been."""

from dataclasses import replace

import pytest

from jissoku.explain import RULES, findings
from jissoku.model.finding import Finding
from jissoku.model.observed import Memory, Observed, Program, Timers
from tests.explain import made

STALLED = (44_000_000,) * 39 + (900_000,)

CASES: list[tuple[str, Observed]] = [
    (
        "workers",
        made.load(threads=(made.thread(0, 1_700_000_000), made.thread(1, 1_000_000))),
    ),
    (
        "delayed-acknowledgement",
        made.wire(latency_ns=STALLED, segments=(2,) * 40),
    ),
    ("split-answer", made.wire(segments=(2,) * 40)),
    ("connection-closed", made.wire(answers_until_close=10, answers_asked=10)),
    ("proxy-hop", made.calls(hops=made.REQUESTS)),
    ("open-per-request", made.calls(opened={"/srv/index.html": made.REQUESTS})),
    ("stat-per-request", made.calls(looked_up={"/srv/index.html": made.REQUESTS})),
    ("access-log", made.calls(logged={"/var/log/access.log": made.REQUESTS})),
    ("needless-calls", made.calls({"getpeername": made.REQUESTS})),
    ("needless-calls", made.calls(again={"recvfrom": made.REQUESTS})),
    ("herd", made.calls(vain=20)),
    ("linear-timers", made.timers(14_000, 30_000)),
    ("coarse-timers", made.timers(14_000, 14_000, late_ns=9_000_000)),
    (
        "memory-per-connection",
        replace(
            made.QUIET,
            memory=Memory(connections=100, rss_bytes_before=0, rss_bytes_after=100 * 65_536),
        ),
    ),
    (
        "interpreter-bound",
        made.load(
            cpu_user_fraction=0.8,
            programs=(Program(pid=1, executable="/usr/bin/python3.12"),),
        ),
    ),
    (
        "debug-build",
        made.load(programs=(Program(pid=1, executable="/home/me/target/debug/server"),)),
    ),
    ("overflow", made.load(listen_overflows=3)),
    ("queueing", made.load(rate_rps_offered=90_000.0)),
    ("generator-bound", made.load(generator_busy_fraction=0.95)),
    ("kernel-threads", made.KERNEL),
]


def test_a_quiet_target_has_no_cause() -> None:
    assert findings(made.QUIET) == ()


def test_what_could_not_be_seen_is_no_cause() -> None:
    assert findings(Observed()) == ()


@pytest.mark.parametrize(("name", "observed"), CASES, ids=[name for name, _ in CASES])
def test_a_cause_is_found_alone(name: str, observed: Observed) -> None:
    found = findings(observed)
    assert [finding.name for finding in found] == [name]
    assert all(found[0].evidence), "no cause without evidence"
    assert found[0].refuted_by
    assert found[0].remedy


def test_every_rule_has_a_case() -> None:
    found = {rule for _, observed in CASES for rule in RULES if rule(observed) is not None}
    assert found == set(RULES)


def only(observed: Observed) -> Finding:
    found = findings(observed)
    assert len(found) == 1
    return found[0]


def test_needless_calls_are_priced_against_the_whole() -> None:
    finding = only(made.calls({"getpeername": 2 * made.REQUESTS}))
    assert "getpeername: 2.00 per request, at most 0.4 µs each" in finding.evidence[0]
    assert finding.effect == "at most 0.8 µs of the 7.0 µs of CPU time per request (11%)"


def test_calls_of_new_connections_are_not_the_requests() -> None:
    observed = made.calls({"epoll_ctl": made.REQUESTS}, connections=made.REQUESTS // 3)
    assert findings(observed) == ()


def test_what_goes_with_opening_a_file_is_told_once() -> None:
    observed = made.calls({"fstat": made.REQUESTS}, opened={"/srv/a": made.REQUESTS})
    assert only(observed).name == "open-per-request"


def test_a_machine_that_slowed_down_is_no_growth() -> None:
    seen = Timers(
        waiting=16_000,
        cpu_ns_idle=12_000,
        cpu_ns_waiting=24_000,
        aside_ns_idle=11_000,
        aside_ns_waiting=20_000,
        late_ns=0,
    )
    assert findings(replace(made.QUIET, timers=seen)) == ()
    (grown,) = findings(replace(made.QUIET, timers=replace(seen, aside_ns_waiting=11_000)))
    assert grown.name == "linear-timers"
    assert "took 11.0 µs and 11.0 µs" in grown.evidence[1]


@pytest.mark.parametrize("answers", [101, 1000, None])
def test_connections_that_last_are_left_alone(answers: int | None) -> None:
    assert findings(made.wire(answers_until_close=answers)) == ()


def test_a_slow_answer_is_no_delayed_acknowledgement() -> None:
    slow = (44_000_000,) * 40
    assert findings(made.wire(latency_ns=slow, latency_ns_acknowledged=slow)) == ()


def test_an_answer_of_many_segments_is_not_split() -> None:
    assert findings(made.wire(segments=(4,) * 40, answer_size=200_000)) == ()


def test_a_worker_with_time_to_spare_is_enough() -> None:
    assert findings(made.load(threads=(made.thread(0, 300_000_000),))) == ()


def test_one_core_needs_one_worker() -> None:
    assert findings(made.load(cores=1, threads=(made.thread(0, 1_700_000_000),))) == ()


def test_a_few_wake_ups_in_vain_are_no_herd() -> None:
    assert findings(made.calls(vain=8)) == ()


def test_a_delayed_acknowledgement_is_no_timer() -> None:
    stalled = made.wire(latency_ns=STALLED, segments=(2,) * 40)
    late = made.timers(14_000, 14_000, late_ns=40_000_000).timers
    assert only(replace(stalled, timers=late)).name == "delayed-acknowledgement"


def test_threads_that_share_a_lock_are_told() -> None:
    threads = (made.thread(0, 900_000_000), made.thread(1, 900_000_000))
    observed = made.load(
        cpu_user_fraction=0.8,
        threads=threads,
        programs=(Program(pid=1, executable="/usr/bin/python3.12"),),
    )
    assert "no more than one core" in only(observed).evidence[1]
