"""Samples become CPU time per request, with intervals that hold as often as they say."""

import random

import pytest

from jissoku.inference.profile import difference, summarise, system_call, wilson
from jissoku.measure.profile import chosen_rate
from jissoku.model import Workload
from jissoku.model.profile import KERNEL, Frame
from jissoku.model.updated import updated
from tests.profiles import factories
from tests.profiles.factories import (
    BURN,
    GENERATED,
    HANDLER,
    LATE,
    LOOP,
    MAIN,
    SEND,
    TCP,
    WORK,
    ZLIB,
)


@pytest.mark.parametrize(
    ("capacities", "rate"),
    [([8_765, 9_000], 4_400), ([906], 450), ([3], 1), ([0.5], 1), ([90_000, 120_000], 40_000)],
)
def test_a_profile_is_of_half_of_what_the_slowest_can_do(
    capacities: list[float], rate: int
) -> None:
    assert chosen_rate(capacities, cores=2) == rate


def test_shares_of_samples_divide_the_measured_time() -> None:
    summary = summarise(
        factories.profile((300, (BURN, MAIN)), (100, (MAIN,)), (600, (TCP, SEND, MAIN)))
    )
    own = {row.name: row.ns for row in summary.functions}
    with_callees = {row.name: row.ns_with_callees for row in summary.functions}
    assert (own["burn"], with_callees["burn"]) == pytest.approx((30_000, 30_000))
    assert (own["main"], with_callees["main"]) == pytest.approx((10_000, 100_000))
    assert sum(row.ns for row in summary.functions) == pytest.approx(summary.total_ns)
    assert sum(row.ns for row in summary.parts) == pytest.approx(summary.total_ns)
    assert {row.name: row.samples for row in summary.parts} == {"sendto": 600, "user space": 400}
    assert summary.lines[0].name == "server.c:10"


def test_the_place_distinguishes_functions_without_a_name() -> None:
    inner, outer = factories.ARROWS
    summary = summarise(factories.profile((300, (inner, outer)), (100, (outer,))))
    assert {row.name: row.samples for row in summary.functions} == {
        "(anonymous) server.js:3": 300,
        "(anonymous) server.js:8": 100,
    }


def test_a_recursive_function_counts_once() -> None:
    summary = summarise(factories.profile((100, (BURN, BURN, BURN, MAIN))))
    (row,) = [row for row in summary.functions if row.name == "burn"]
    assert row.ns_with_callees == pytest.approx(summary.total_ns)


def test_functions_with_few_samples_have_no_figure_of_their_own() -> None:
    summary = summarise(factories.profile((95, (BURN,)), (5, (ZLIB,))))
    assert [row.name for row in summary.functions] == ["burn"]
    assert summary.too_few == pytest.approx(5_000)


def test_the_kernel_that_was_not_sampled_has_what_is_left() -> None:
    profile = factories.profile((400, (BURN, MAIN)))
    unseen = updated(
        profile,
        cpu_ns=1_000_000_000,
        samples=updated(profile.samples, sees_kernel=False),
    )
    summary = summarise(unseen)
    parts = {row.name: row.ns / summary.total_ns for row in summary.parts}
    assert parts == {
        "user space": pytest.approx(0.4),
        "kernel (not sampled)": pytest.approx(0.6),
    }
    assert summary.functions[0].ns == pytest.approx(0.4 * summary.total_ns)


def test_a_function_of_little_own_time_is_there_for_its_callees() -> None:
    summary = summarise(factories.profile((600, (BURN, MAIN)), (5, (MAIN,)), (395, (ZLIB,))))
    (main,) = [row for row in summary.functions if row.name == "main"]
    assert main.ns_with_callees == pytest.approx(0.605 * summary.total_ns)
    assert summary.too_few == 0


def test_the_tree_has_callees_below_their_callers() -> None:
    summary = summarise(
        factories.profile(
            (500, (BURN, BURN, MAIN)), (300, (TCP, SEND, MAIN)), (100, (MAIN,)), (100, (ZLIB,))
        )
    )
    # Of what only calls another, the last is shown.
    assert [(row.depth, row.name) for row in summary.tree] == [
        (0, "main"),
        (1, "burn"),
        (1, "tcp_sendmsg"),
        (0, "(no symbol)"),
    ]
    shares = [row.ns_with_callees / summary.total_ns for row in summary.tree]
    assert shares == pytest.approx([0.9, 0.5, 0.3, 0.1])


def test_samples_without_frames_have_a_row_and_a_remark() -> None:
    summary = summarise(
        factories.interpreted(
            factories.profile((1000, (BURN, MAIN))), (90, (WORK, HANDLER)), (10, (LATE,))
        )
    )
    assert {row.name: row.ns / summary.total_ns for row in summary.functions} == {
        "work": pytest.approx(0.9),
        LATE.function: pytest.approx(0.1),
        "handler": 0,
    }
    assert "10.0% of the samples are without Python frames: it did not stop." in summary.remarks


def test_python_whose_functions_are_not_known_is_remarked() -> None:
    summary = summarise(factories.profile((300, (LOOP, MAIN)), (700, (MAIN,))))
    (remark,) = summary.remarks
    assert remark.startswith("30% of the samples are in Python functions whose names are not known")


def test_functions_of_an_interpreter_stand_for_its_process() -> None:
    profile = factories.interpreted(
        factories.profile((700, (BURN, MAIN)), (300, (ZLIB, MAIN))),
        (60, (WORK, HANDLER)),
        (40, (HANDLER,)),
    )
    summary = summarise(profile)
    costs = {row.name: row.ns / summary.total_ns for row in summary.functions}
    assert costs == {"work": pytest.approx(0.6), "handler": pytest.approx(0.4)}
    assert {row.name for row in summary.native} >= {"burn", "(no symbol)"}
    (work,) = [row for row in summary.functions if row.name == "work"]
    assert work.samples == 60, "the interval is that of the readings"


def test_samples_that_disagree_with_the_accounting_are_remarked() -> None:
    profile = factories.profile((1000, (BURN,)))
    summary = summarise(updated(profile, cpu_ns=2 * profile.cpu_ns))
    assert any("shares may be off" in remark for remark in summary.remarks)


def test_time_of_processes_too_short_to_be_sampled_is_a_part() -> None:
    profile = factories.profile((400, (BURN, MAIN)))
    seen = updated(profile.samples, counted_ns=1_000_000_000, processes_started=700)
    slow = updated(profile, workload=Workload(rate_rps=1), requests=10)
    summary = summarise(updated(slow, cpu_ns=1_000_000_000, samples=seen))
    parts = {row.name: row.ns / summary.total_ns for row in summary.parts}
    assert parts == {
        "user space": pytest.approx(0.4),
        "not sampled: processes end too soon": pytest.approx(0.6),
    }
    assert summary.functions[0].ns == pytest.approx(0.4 * summary.total_ns)
    (remark,) = summary.remarks
    assert remark.startswith("60% of the CPU time has no samples")
    assert remark.endswith("700 processes were started, 70 per request.")


@pytest.mark.parametrize(("samples", "processes"), [(960, 700), (700, 0)])
def test_other_time_without_samples_is_none_of_that(samples: int, processes: int) -> None:
    profile = factories.profile((samples, (BURN, MAIN)))
    seen = updated(profile.samples, counted_ns=1_000_000_000, processes_started=processes)
    summary = summarise(updated(profile, samples=seen))
    assert [row.name for row in summary.parts] == ["user space"]
    assert summary.remarks == ()


def test_code_without_symbols_is_remarked() -> None:
    summary = summarise(factories.profile((500, (ZLIB, MAIN)), (500, (BURN,))))
    assert any("libz.so.1" in remark for remark in summary.remarks)


def test_generated_code_without_names_is_remarked_with_the_option() -> None:
    summary = summarise(factories.profile((500, (GENERATED, MAIN)), (500, (BURN,))))
    (remark,) = summary.remarks
    assert remark.endswith("for which Node has the option --perf-basic-prof.")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("tcp_sendmsg", "__x64_sys_sendto", "do_syscall_64", "entry_SYSCALL_64"), "sendto"),
        (("vfs_write", "ksys_write", "do_syscall_64"), "write"),
        (("tcp_recvmsg", "__sys_recvfrom", "x64_sys_call", "do_syscall_64"), "recvfrom"),
        (("do_filp_open", "do_sys_openat2", "do_syscall_64"), "openat2"),
        (("do_syscall_64",), "entry and exit of the kernel"),
        (("syscall_exit_to_user_mode", "do_syscall_64"), "entry and exit of the kernel"),
        (("handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"), "page faults"),
        (("tick", "asm_sysvec_apic_timer_interrupt"), "interrupts"),
        (("tick", "asm_sysvec_apic_timer_interrupt", "ksys_read", "do_syscall_64"), "read"),
        (("",), "kernel"),
        ((), ""),
    ],
)
def test_stacks_of_the_kernel_name_its_work(names: tuple[str, ...], expected: str) -> None:
    frames = [Frame(function=name, library=KERNEL) for name in names]
    assert system_call((*frames, MAIN)) == expected


def test_the_interval_of_a_share_holds_its_truth() -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(400):
        count = sum(rng.random() < 0.3 for _ in range(500))
        low, high = wilson(count, 500)
        held += low <= 0.3 <= high
    assert 0.91 <= held / 400 <= 0.985
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_difference_names_what_was_added_first() -> None:
    first = summarise(factories.profile((5000, (MAIN,)), (5000, (TCP, SEND)), us=100))
    second = summarise(
        factories.profile((5000, (MAIN,)), (5000, (TCP, SEND)), (5000, (BURN, MAIN)), us=150)
    )
    change = difference(first, second)
    assert change.difference_ns == pytest.approx(50_000, rel=1e-3)
    top = change.functions[0]
    assert (top.name, top.is_certain) == ("burn", True)
    assert top.difference_ns == pytest.approx(50_000, rel=1e-3)
    assert top.part == pytest.approx(1.0, rel=1e-3)
    assert change.unexplained_ns == pytest.approx(0, abs=100)
    assert [row.is_certain for row in change.functions[1:]] == [False, False]
    assert sum(row.difference_ns for row in change.parts) == pytest.approx(change.difference_ns)


def test_few_samples_are_not_none() -> None:
    first = summarise(factories.profile((980, (MAIN,)), (15, (BURN, MAIN)), (5, (SEND,))))
    second = summarise(factories.profile((991, (MAIN,)), (9, (BURN, MAIN)), us=100))
    change = difference(first, second)
    (burn,) = [row for row in change.functions if row.name == "burn"]
    assert burn.ns == pytest.approx((1_500, 900))
    assert burn.samples == (15, 9)
    assert burn.ns_high[1] > 900
    assert not burn.is_certain
    assert "__x64_sys_sendto" not in [row.name for row in change.functions], "few in both"


def test_no_sample_is_uncertain() -> None:
    first = summarise(factories.profile((988, (MAIN,)), (12, (BURN, MAIN))))
    change = difference(first, summarise(factories.profile((100, (MAIN,)))))
    (burn,) = [row for row in change.functions if row.name == "burn"]
    assert burn.ns[1] == 0
    assert burn.ns_high[1] > burn.ns[0], "of a hundred samples none may be by chance"
    assert not burn.is_certain


def test_equal_profiles_have_no_certain_difference() -> None:
    one = summarise(factories.profile((500, (MAIN,)), (500, (BURN,))))
    change = difference(one, one)
    assert not any(row.is_certain for row in change.functions)
    assert all(row.part is None for row in change.functions)
