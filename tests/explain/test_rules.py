"""Each rule with constructed observations."""

import pytest

from jissoku.explain import findings
from jissoku.explain.causes import CAUSES
from jissoku.model.explanation import (
    Finding,
    MemoryObservation,
    Observations,
    ProcessInfo,
    TimerObservation,
)
from jissoku.model.updated import updated
from tests.explain import factories

STALLED = (44_000_000,) * 39 + (900_000,)

CASES: list[tuple[str, Observations]] = [
    (
        "idle-cores",
        factories.load(
            threads=(factories.thread(0, 1_700_000_000), factories.thread(1, 1_000_000))
        ),
    ),
    (
        "delayed-acknowledgement",
        factories.wire(latency_ns=STALLED, segments=(2,) * 40),
    ),
    ("split-answer", factories.wire(segments=(2,) * 40)),
    ("connection-closed", factories.wire(answers_until_close=10, answers_asked=10)),
    ("upstream-no-keepalive", factories.calls(connected={"127.0.0.1:5432": factories.REQUESTS})),
    ("open-per-request", factories.calls(opened={"/srv/index.html": factories.REQUESTS})),
    ("stat-per-request", factories.calls(path_queries={"/srv/index.html": factories.REQUESTS})),
    (
        "file-copied",
        updated(
            factories.calls({"pread64": 32 * factories.REQUESTS}),
            wire=updated(factories.WIRE, answer_size=1_048_822),
        ),
    ),
    ("access-log", factories.calls(logged={"/var/log/access.log": factories.REQUESTS})),
    ("verbose-log", factories.calls(logged={"/var/log/error.log": 300 * factories.REQUESTS})),
    ("avoidable-syscalls", factories.calls({"getpeername": factories.REQUESTS})),
    ("avoidable-syscalls", factories.calls(eagain={"recvfrom": factories.REQUESTS})),
    ("thundering-herd", factories.calls(spurious_wakeups=20)),
    ("linear-timers", factories.timers(14_000, 30_000)),
    ("coarse-timers", factories.timers(14_000, 14_000, late_ns=9_000_000)),
    (
        "memory-per-connection",
        updated(
            factories.QUIET,
            memory=MemoryObservation(
                connections=100, rss_bytes_before=0, rss_bytes_after=100 * 65_536
            ),
        ),
    ),
    (
        "interpreter-bound",
        factories.load(
            cpu_user_fraction=0.8,
            processes=(ProcessInfo(pid=1, executable="/usr/bin/python3.12"),),
        ),
    ),
    ("many-round-trips", factories.calls(round_trips={"db:5432": 12 * factories.REQUESTS})),
    ("many-round-trips", factories.calls(transactions={"/srv/db": 12 * factories.REQUESTS})),
    ("disk-per-request", factories.calls(synced={"/srv/db": factories.REQUESTS})),
    ("disk-per-request", factories.waits(factories.thread_waits({"write pipe": 40}, "accept"))),
    ("name-lookup", factories.calls(name_lookups=factories.REQUESTS)),
    ("blocked-event-loop", factories.waits(factories.thread_waits({"clock_nanosleep": 90}))),
    (
        "interpreter-lock",
        updated(
            factories.load(
                threads=(factories.thread(0, 900_000_000), factories.thread(1, 900_000_000)),
                processes=(ProcessInfo(pid=1, executable="/usr/bin/python3.12"),),
            ),
            profile=factories.function("take_gil").profile,
        ),
    ),
    (
        "debug-build",
        factories.load(processes=(ProcessInfo(pid=1, executable="/home/me/target/debug/server"),)),
    ),
    ("development-server", factories.wire(server="Werkzeug/3.0.1 Python/3.12.1")),
    ("compression-unasked", factories.wire(compresses="gzip")),
    ("accept-queue-overflow", factories.load(listen_overflows=3)),
    ("queueing", factories.load(rate_rps_offered=90_000.0)),
    ("generator-bound", factories.load(generator_busy_fraction=0.95)),
    ("kernel-threads", factories.KERNEL),
    ("compression-per-request", factories.function("", "libz.so.1.2.13")),
    ("tls-handshakes", factories.function("ossl_statem_server_read_transition", "libssl.so.3")),
    ("tls-encryption", factories.function("CRYPTO_gcm128_encrypt", "libcrypto.so.3")),
    ("start-per-request", factories.function("Py_InitializeFromConfig", "python3.11")),
    ("regular-expressions", factories.function("pcre2_match_8", "libpcre2-8.so.0")),
    ("json-per-request", factories.function("encoding/json.Marshal")),
    ("template-per-request", factories.function("html/template.(*Template).Execute")),
    ("name-lookup", factories.function("getaddrinfo", "libc.so.6")),
    ("hashing", factories.function("SHA256_Update", "libcrypto.so.3")),
    ("logging-format", factories.function("ngx_http_log_handler", "nginx")),
    ("date-formatting", factories.function("__strftime_internal", "libc.so.6")),
    ("exceptions", factories.function("_Unwind_RaiseException", "libgcc_s.so.1")),
    ("garbage-collection", factories.function("runtime.gcBgMarkWorker")),
    ("allocation", factories.function("_int_malloc", "libc.so.6")),
    ("lock-contention", factories.function("pthread_mutex_lock", "libc.so.6")),
    ("copying", factories.function("__memmove_avx_unaligned_erms", "libc.so.6")),
]


def test_a_quiet_target_has_no_cause() -> None:
    assert findings(factories.QUIET) == ()


def test_what_could_not_be_seen_is_no_cause() -> None:
    assert findings(Observations()) == ()


@pytest.mark.parametrize(("name", "observed"), CASES, ids=[name for name, _ in CASES])
def test_a_cause_is_found_alone(name: str, observed: Observations) -> None:
    found = findings(observed)
    assert [finding.name for finding in found] == [name]
    assert all(found[0].evidence), "no cause without evidence"
    assert found[0].falsified_by
    assert found[0].remedy


# An answer that takes long waits for something, whatever else is found.
SLOW = {"time-without-cpu", "worker-limit"}


def test_every_cause_has_a_case() -> None:
    assert {name for name, _ in CASES} | SLOW == set(CAUSES)


ASLEEP = factories.thread_waits({"clock_nanosleep": 99}, rest="futex")


@pytest.mark.parametrize(
    ("observed", "names"),
    [
        (factories.slow(ASLEEP), {"worker-limit", "time-without-cpu"}),
        # As many requests in work as there are connections.
        (factories.slow(ASLEEP, requests=4_500), {"time-without-cpu"}),
        (factories.slow(*[ASLEEP] * 60), {"time-without-cpu"}),
        (
            factories.slow(factories.thread_waits({"clock_nanosleep": 99})),
            {"blocked-event-loop", "time-without-cpu"},
        ),
        # A request of 12 ms of CPU time in 20 ms does not wait.
        (factories.slow(cpu_ns=150 * 12_000_000, requests=150), set()),
    ],
)
def test_time_without_cpu_is_explained_by_where_threads_wait(
    observed: Observations, names: set[str]
) -> None:
    assert {finding.name for finding in findings(observed)} == names


def test_the_function_of_python_that_waits_is_named() -> None:
    function = "sendall, called by ask at app.py:31"
    asking = factories.thread_waits({"recvfrom db:5432": 99})
    named = updated(asking, functions={"recvfrom": function})
    loop, waits, *_ = findings(factories.slow(named))
    assert f"recvfrom db:5432 (99%, in {function})" in loop.evidence[0]
    assert any(f"in recvfrom db:5432, in {function}" in one for one in waits.evidence)


def test_a_busy_machine_delays_most_answers_and_is_no_wait_of_the_server() -> None:
    delayed = (100_000,) * 6 + (8_000_000,) * 34
    observed = updated(
        factories.slow(ASLEEP),
        wire=updated(factories.WIRE, latency_ns=delayed, latency_ns_acknowledged=delayed),
    )
    assert findings(observed) == ()


@pytest.mark.parametrize(
    ("places", "rest"),
    [
        ({"epoll_wait": 60, "write /var/log/a": 5}, "epoll_wait"),
        ({"recvfrom its client": 90}, "poll its listener"),
        ({"futex": 90}, "epoll_wait"),  # how threads of Go and Rust rest, too
        ({"clock_nanosleep": 90}, "clock_nanosleep"),  # a supervisor
        ({"poll 10.0.0.1:5432": 90}, "accept its listener"),  # no loop: a worker may wait
    ],
)
def test_threads_may_rest_and_workers_may_wait(places: dict[str, int], rest: str) -> None:
    assert findings(factories.waits(factories.thread_waits(places, rest))) == ()


THREADS = (factories.thread(0, 900_000_000), factories.thread(1, 900_000_000))


@pytest.mark.parametrize(("user", "is_named"), [(0.7, True), (0.1, False), (None, False)])
def test_native_threads_of_an_interpreters_process_share_no_lock(
    user: float | None, *, is_named: bool
) -> None:
    """Two workers written in Rust use half a core each at some rate, most of it in the kernel."""
    program = ProcessInfo(pid=1, executable="/usr/bin/python3.12")
    seen = factories.load(threads=THREADS, processes=(program,), cpu_user_fraction=user)
    assert ("interpreter-lock" in {one.name for one in findings(seen)}) is is_named


@pytest.mark.parametrize(("cpu_ns", "is_named"), [(1_000_000_000, True), (1_800_000_000, False)])
def test_threads_that_share_busy_cores_with_other_processes_wait_for_these(
    cpu_ns: int, *, is_named: bool
) -> None:
    program = ProcessInfo(pid=1, executable="/usr/bin/python3.12")
    known = factories.load(threads=THREADS, processes=(program,), cpu_user_fraction=0.9)
    assert known.load is not None
    window = updated(known.load, cpu_ns=cpu_ns, duration_ns=1_000_000_000)
    seen = updated(known, load=window)
    assert ("interpreter-lock" in {one.name for one in findings(seen)}) is is_named


def test_a_loop_of_an_interpreter_that_is_idle_waits_for_no_lock() -> None:
    program = ProcessInfo(pid=77, executable="/usr/bin/python3.12")
    looked = factories.thread_waits({"futex": 90})
    idle = factories.waits(looked, threads=(), cpu_ns=1_000_000, processes=(program,))
    assert only(idle).name == "blocked-event-loop"
    assert findings(factories.waits(looked, processes=(program,))) == ()


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (("python3", "-X", "dev", "app.py"), {}),
        (("python3", "app.py"), {"WERKZEUG_RUN_MAIN": "true"}),
        (("python3", "app.py"), {"FLASK_DEBUG": "1"}),
        (("node", "app.js"), {"NODE_ENV": "development"}),
    ],
)
def test_signs_of_a_program_that_is_started_for_debugging(
    arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    program = ProcessInfo(
        pid=1, executable="/usr/bin/env", arguments=arguments, variables=variables
    )
    assert only(factories.load(processes=(program,))).name == "debug-build"


@pytest.mark.parametrize(
    ("arguments", "variables", "of_wire", "which"),
    [
        (
            "python3 manage.py runserver 8000",
            {},
            {"server": "WSGIServer/0.2 CPython/3.11.2"},
            "wsgi",
        ),
        ("python3 -m uvicorn app:app --reload", {}, {"server": "uvicorn"}, "a server that reloads"),
        ("node app.js", {}, {"powered_by": "Express"}, "Express in its development mode"),
        ("node app.js", {"NODE_ENV": "production"}, {"powered_by": "Express"}, ""),
        ("python3 -m gunicorn app:app", {}, {"server": "gunicorn"}, ""),
    ],
)
def test_a_server_for_development_is_named(
    arguments: str, variables: dict[str, str], of_wire: dict[str, str], which: str
) -> None:
    program = ProcessInfo(
        pid=1, executable="/usr/bin/env", arguments=tuple(arguments.split()), variables=variables
    )
    observed = updated(factories.wire(**of_wire), load=factories.load(processes=(program,)).load)
    found = findings(observed)
    assert [one.name for one in found] == ["development-server"] * bool(which)
    assert all(which in one.cause for one in found)


def test_files_of_a_lookup_are_not_reported_as_opened() -> None:
    opened = {"/etc/hosts": factories.REQUESTS}
    observed = factories.calls(opened=opened, name_lookups=factories.REQUESTS)
    assert only(observed).name == "name-lookup"


def test_five_questions_in_turn_are_many_and_two_are_not() -> None:
    found = only(factories.calls(round_trips={"db:5432": 5 * factories.REQUESTS}))
    assert "db:5432 5 times" in found.cause
    assert findings(factories.calls(round_trips={"db:5432": 2 * factories.REQUESTS})) == ()


def test_what_is_found_by_calls_and_by_functions_is_one_finding() -> None:
    both = updated(
        factories.function("getaddrinfo", "libc.so.6"),
        syscalls=factories.calls(name_lookups=factories.REQUESTS).syscalls,
    )
    assert "lookups per request" in only(both).evidence[0]
    assert "of the CPU time" in only(both).evidence[1]


def only(observed: Observations) -> Finding:
    found = findings(observed)
    assert len(found) == 1
    return found[0]


def test_needless_calls_are_priced_against_the_whole() -> None:
    finding = only(factories.calls({"getpeername": 2 * factories.REQUESTS}))
    assert "getpeername: 2.00 per request, at most 0.4 µs each" in finding.evidence[0]
    assert finding.effect == "at most 0.8 µs of the 7.0 µs of CPU time per request (11%)"


def test_calls_of_new_connections_are_not_the_requests() -> None:
    observed = factories.calls(
        {"epoll_ctl": factories.REQUESTS}, connections=factories.REQUESTS // 3
    )
    assert findings(observed) == ()


def test_what_goes_with_opening_a_file_is_reported_once() -> None:
    observed = factories.calls({"fstat": factories.REQUESTS}, opened={"/srv/a": factories.REQUESTS})
    assert only(observed).name == "open-per-request"


def test_a_machine_that_slowed_down_is_no_growth() -> None:
    seen = TimerObservation(
        waiting=16_000,
        cpu_ns_idle=12_000,
        cpu_ns_waiting=24_000,
        control_ns_idle=11_000,
        control_ns_waiting=20_000,
        lateness_ns=0,
    )
    assert findings(updated(factories.QUIET, timers=seen)) == ()
    (grown,) = findings(updated(factories.QUIET, timers=updated(seen, control_ns_waiting=11_000)))
    assert grown.name == "linear-timers"
    assert "took 11.0 µs and 11.0 µs" in grown.evidence[1]


# Five loads of a server that holds each answer back for 40 ms: 130 requests in a load.
CHANCE_IDLE = (0.44, 0.60, 0.61, 0.73, 0.77)
CHANCE_WAITING = (0.38, 0.43, 0.91, 1.28, 2.02)


@pytest.mark.parametrize(
    ("idle", "waiting", "found"),
    [
        (CHANCE_IDLE, CHANCE_WAITING, 0),
        (CHANCE_IDLE, tuple(1.7 + cost for cost in CHANCE_IDLE), 1),
        ((0.96, 0.98, 1.0, 1.03, 1.9), (1.6, 1.63, 1.7, 1.71, 1.8), 0),
        ((0.61, 1.02, 1.07, 1.08, 1.28), (0.98, 1.65, 1.67, 2.11, 2.15), 1),
    ],
)
def test_growth_by_chance_is_none(
    idle: tuple[float, ...], waiting: tuple[float, ...], found: int
) -> None:
    seen = factories.timers(14_000, 30_000).timers
    assert seen is not None
    observed = updated(
        factories.QUIET, timers=updated(seen, costs_idle=idle, costs_waiting=waiting)
    )
    assert [each.name for each in findings(observed)] == ["linear-timers"] * found


@pytest.mark.parametrize(("reads", "size"), [(32, 20_000), (1, 1_048_822)])
def test_a_small_file_or_one_read_is_no_copied_file(reads: int, size: int) -> None:
    calls = factories.calls({"pread64": reads * factories.REQUESTS})
    assert findings(updated(calls, wire=updated(factories.WIRE, answer_size=size))) == ()


@pytest.mark.parametrize("answers", [101, 1000, None])
def test_connections_that_last_are_left_alone(answers: int | None) -> None:
    assert findings(factories.wire(answers_until_close=answers)) == ()


def test_a_slow_answer_is_no_delayed_acknowledgement() -> None:
    slow = (44_000_000,) * 40
    observed = factories.wire(latency_ns=slow, latency_ns_acknowledged=slow)
    assert only(observed).name == "time-without-cpu"


def test_an_answer_of_many_segments_is_not_split() -> None:
    assert findings(factories.wire(segments=(4,) * 40, answer_size=200_000)) == ()


def test_a_worker_with_time_to_spare_is_enough() -> None:
    assert findings(factories.load(threads=(factories.thread(0, 300_000_000),))) == ()


def test_one_core_needs_one_worker() -> None:
    assert findings(factories.load(cores=1, threads=(factories.thread(0, 1_700_000_000),))) == ()


def test_a_few_spurious_wake_ups_are_no_thundering_herd() -> None:
    assert findings(factories.calls(spurious_wakeups=8)) == ()


@pytest.mark.parametrize("cost_ns", [14_000, 30_000])
def test_a_delayed_acknowledgement_is_no_timer(cost_ns: int) -> None:
    stalled = factories.wire(latency_ns=STALLED, segments=(2,) * 40)
    late = factories.timers(14_000, cost_ns, late_ns=40_000_000).timers
    assert only(updated(stalled, timers=late)).name == "delayed-acknowledgement"
