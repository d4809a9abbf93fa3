"""Causes from profiles: which samples count as one, and which do not."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from jissoku.explain import findings
from jissoku.explain.causes import CPU_CAUSES, format_saving
from jissoku.inference.profile import user_functions
from jissoku.model.explanation import Explanation, Observations, ProcessInfo
from jissoku.model.profile import Frame, ProfileObservation
from jissoku.model.updated import updated
from jissoku.report.explanation import explanation_to_json, explanation_to_text
from tests.explain import factories
from tests.profiles.factories import samples as sampled

DEFLATE = Frame(function="deflate", library="libz.so.1.3")
MALLOC = Frame(function="malloc", library="libc.so.6")


PROFILES = tomllib.loads(Path(__file__).with_name("stacks.toml").read_text())["profile"]


def names(observed: Observations) -> list[str]:
    return [finding.name for finding in findings(observed)]


def test_a_small_share_is_no_cause() -> None:
    assert names(factories.function("deflate", count=99)) == []
    assert names(factories.function("deflate", count=100)) == ["compression-per-request"]


def test_decompressing_is_not_compressing() -> None:
    assert names(factories.function("inflate_fast", "libz.so.1.3", count=500)) == []


def test_what_a_compressor_allocates_is_its_own() -> None:
    assert names(factories.profile((500, (MALLOC, DEFLATE)))) == ["compression-per-request"]
    assert names(factories.profile((500, (MALLOC,)))) == ["allocation"]


def test_evidence_and_effect_are_in_microseconds_per_request() -> None:
    (finding,) = findings(factories.function("deflate", "libz.so.1.3", count=600))
    assert finding.evidence == (
        "60% of the CPU time is in such functions (600 samples)",
        "most of it in libz.so.1.3: deflate 60.0 µs per request",
        "called from server: main 60.0 µs per request",
        "an answer has 115 bytes",
    )
    assert finding.effect == "at most 60.0 µs of the 100.0 µs of CPU time per request (60%)"


def test_the_interpreters_lock_is_evidence_and_no_cause() -> None:
    observed = factories.function("take_gil", "python3.11", count=160)
    assert names(observed) == []
    python = factories.load(
        cpu_user_fraction=0.8, processes=(ProcessInfo(pid=1, executable="/usr/bin/python3"),)
    )
    (finding,) = findings(updated(python, profile=observed.profile))
    assert finding.name == "interpreter-bound"
    assert "16% of the CPU time passes its lock from thread to thread" in finding.evidence


def test_processes_too_short_to_be_sampled_are_started_per_request() -> None:
    observed = factories.function("vfork", count=20)
    profile = observed.profile
    assert profile is not None

    def seen(processes: int) -> Observations:
        counted = updated(profile.samples, counted_ns=2_000_000_000, processes_started=processes)
        return updated(observed, profile=updated(profile, samples=counted))

    assert names(seen(900)) == [], "threads may be short, too"
    (finding,) = findings(seen(9_800))
    assert finding.name == "start-per-request"
    (evidence,) = finding.evidence
    assert evidence.startswith("0.98 processes are started per request; 50% of the CPU time is of")
    assert "(50%)" in finding.effect


def test_the_end_of_processes_belongs_to_them_where_processes_are_started() -> None:
    observed = factories.function("do_exit", "[kernel]", count=300)
    profile = observed.profile
    assert profile is not None

    def seen(processes: int) -> Observations:
        counted = updated(profile.samples, processes_started=processes)
        return updated(observed, profile=updated(profile, samples=counted))

    assert names(seen(900)) == [], "threads end, too"
    (finding,) = findings(seen(9_800))
    assert finding.name == "start-per-request"
    assert finding.evidence[0] == "30% of the CPU time is in such functions (300 samples)"
    assert finding.evidence[-1] == "0.98 processes are started per request"


def test_interpreted_functions_are_asked_too() -> None:
    encode = Frame(function="iterencode", library="[python]", file="encoder.py", line=3)
    assert names(factories.profile((400, (encode,)), interpreted=True)) == ["json-per-request"]


def test_where_the_kernel_was_not_sampled_its_time_counts() -> None:
    observed = factories.function("deflate", count=300)
    assert observed.profile is not None
    unseen = updated(
        observed.profile,
        cpu_ns=4 * observed.profile.cpu_ns,
        samples=updated(observed.profile.samples, sees_kernel=False),
    )
    assert names(updated(observed, profile=unseen)) == []


@pytest.mark.parametrize(
    "name",
    [
        "runtime.futex",
        "ngx_http_handler",
        "writev",
        "tcp_sendmsg",
        "do_syscall_64",
        "_PyEval_EvalFrameDefault",
        "runtime.mallocgc",
        "uv__io_poll",
        "serve_connection",
        "std::panicking::catch_unwind::do_call",
    ],
)
def test_the_work_of_every_server_is_no_cause(name: str) -> None:
    assert names(factories.function(name, count=900)) == []


@pytest.mark.parametrize("name", ["deflate.constprop.0", "deflate.part.3.isra.0", "deflate.cold"])
def test_what_a_compiler_adds_to_a_name_is_no_part_of_it(name: str) -> None:
    assert names(factories.function(name)) == ["compression-per-request"]


def test_stacks_are_left_out_of_the_json() -> None:
    explanation = Explanation(
        target="t",
        version="1",
        path="/",
        observations=factories.function("deflate"),
        findings=(),
    )
    assert "deflate" not in explanation_to_json(explanation)


def test_the_functions_of_user_space_are_part_of_every_explanation() -> None:
    """Also of one that is no known kind of work; the kernel's are not the target's own."""
    program = Frame(function="burn_here", library="server")
    helper = Frame(function="parse", library="libparse.so.1")
    rare = Frame(function="rare", library="server")
    entry = Frame(function="do_syscall_64", library="[kernel]")
    seen = factories.profile(
        (250, (program,)), (100, (helper, program)), (5, (rare,)), (645, (entry, helper)),
    )  # fmt: skip
    assert seen.profile is not None
    rows = user_functions(seen.profile)
    assert [(row.name, row.place) for row in rows] == [
        ("burn_here", "server"),
        ("parse", "libparse.so.1"),
    ]
    assert rows[0].ns == pytest.approx(0.25 * seen.profile.cpu_ns_per_request)
    explanation = Explanation(
        target="t", version="1", path="/", observations=seen, findings=(), functions=rows
    )
    text = explanation_to_text(explanation)
    assert text.index("burn_here (server)") < text.index("parse (libparse.so.1)")
    assert "25.0%" in text
    assert "burn_here" in explanation_to_json(explanation)


def test_the_time_that_no_listed_function_takes_is_accounted_for() -> None:
    program = Frame(function="burn_here", library="server")
    entry = Frame(function="do_syscall_64", library="[kernel]")
    seen = factories.profile((24, (program,)), (976, (entry,)))
    assert seen.profile is not None
    rows = user_functions(seen.profile)
    load = factories.load(cpu_ns=10_000_000, requests=1_000).load
    assert load is not None
    seen = updated(seen, load=updated(load, cpu_user_fraction=0.47))
    explanation = Explanation(
        target="t",
        version="1",
        path="/",
        observations=seen,
        findings=(),
        functions=rows,
    )
    text = explanation_to_text(explanation)
    assert (
        "The other 45% outside the kernel: functions with smaller shares, and code without names"
        in text
    )
    assert "--perf-basic-prof" in text


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (5_000, "no function of the target takes 1% of the CPU time or more (5,000 samples)"),
        (40, "no function of the target takes 25% of the CPU time or more (40 samples)"),
        (8, "8 samples are too few to name a function; `jissoku profile` takes more"),
    ],
)
def test_too_few_samples_say_less_of_functions(samples: int, said: str) -> None:
    entry = Frame(function="do_syscall_64", library="[kernel]")
    few = sampled((samples, (entry,)), frames=(entry,))
    profile = ProfileObservation(requests=1_000, cpu_ns=samples * 1_000_000, samples=few)
    seen = updated(factories.QUIET, profile=profile)
    explanation = Explanation(target="t", version="1", path="/", observations=seen, findings=())
    assert f"User space: {said}." in explanation_to_text(explanation)


@pytest.mark.parametrize(("cpu_ns", "said"), [(40e3, "at most 20.0"), (10e3, "up to all of the")])
def test_no_more_is_saved_than_a_request_costs(cpu_ns: float, said: str) -> None:
    load = factories.load(cpu_ns=round(cpu_ns * 1_000), requests=1_000)
    assert format_saving(load, 20e3).startswith(said)


def observed(stored: dict[str, Any]) -> Observations:
    """The profile of an entry of stacks.toml."""
    stacks = []
    for line in stored["stacks"].strip().splitlines():
        count, _, stack = line.partition(" ")
        stacks.append((int(count), tuple(map(frame, reversed(stack.split(";"))))))
    return factories.profile(*stacks, interpreted=stored.get("interpreted", False))


def frame(text: str) -> Frame:
    """`library!function@file`; what follows the function may be missing."""
    library, _, rest = text.partition("!")
    function, _, file = rest.partition("@")
    return Frame(function=function, library=library, file=file)


@pytest.mark.parametrize("stored", PROFILES, ids=lambda one: f"{one['name']} {one['cause']}")
def test_a_stored_profile_has_its_cause_and_no_other(stored: dict[str, Any]) -> None:
    found = findings(observed(stored))
    assert [finding.name for finding in found] == ([stored["cause"]] if stored["cause"] else [])
    for finding in found:
        assert finding.evidence
        assert finding.falsified_by
        assert finding.remedy


def test_every_cause_from_profiles_has_a_stored_profile() -> None:
    assert {cause.name for cause in CPU_CAUSES} <= {one["cause"] for one in PROFILES}


def test_the_callers_of_what_was_found_are_named() -> None:
    lock = Frame(function="pthread_mutex_lock", library="libc.so.6")
    futex = Frame(function="__x64_sys_futex", library="[kernel]")
    cache = Frame(function="cache_lookup", library="server")
    unnamed = Frame(function="", library="server")
    seen = factories.profile((300, (futex, lock, unnamed, cache)), (100, (lock,)))
    (finding,) = findings(seen)
    assert finding.evidence[2] == (
        "called from server: cache_lookup 30.0 µs, server: main 10.0 µs per request"
    )
