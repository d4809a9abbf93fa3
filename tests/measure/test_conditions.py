import os

import pytest

from jissoku.measure import conditions
from jissoku.measure.conditions import Snapshot, interval_change
from jissoku.model.updated import updated
from jissoku.system import processes
from jissoku.system.processes import ProcessStat

TARGET, FOREIGN, ELSEWHERE, KERNEL = 42, 77, 78, 12


def stat(
    *, user: int = 0, system: int = 0, core: int = 0, faults: int = 0, parent: int = 1
) -> ProcessStat:
    return ProcessStat(
        user_ticks=user, system_ticks=system, core=core, major_faults=faults, parent=parent
    )


def snapshot(
    at_s: float,
    processes: dict[int, ProcessStat],
    *,
    steal: int = 0,
    tcp: dict[str, int] | None = None,
) -> Snapshot:
    return Snapshot(int(at_s * 1e9), {0: steal, 1: 99}, tcp or {}, processes, {TARGET: {TARGET}})


@pytest.mark.parametrize(
    ("again", "named", "probes", "repaired", "lost"),
    [
        (9, 9, 0, 0, 0),
        (9, 7, 0, 0, 2),
        (3, 4, 0, 0, 0),
        (3, None, None, None, 3),
        (None, 1, 1, 0, None),
        (1, 0, 1, 0, 0),
        (1, 0, 1, 1, 1),
        (3, 0, 1, 0, 2),
        # Two probes, both named: they are not counted twice.
        (3, 2, 2, 0, 1),
        (0, 0, 5, 0, 0),
    ],
)
def test_what_had_arrived_was_not_lost(
    again: int | None,
    named: int | None,
    probes: int | None,
    repaired: int | None,
    lost: int | None,
) -> None:
    counted = {
        "RetransSegs": again,
        "TCPDSACKRecvSegs": named,
        "TCPLossProbes": probes,
        "TCPLossProbeRecovery": repaired,
    }
    after = {name: 5 + count for name, count in counted.items() if count is not None}
    seen = interval_change(
        snapshot(1.0, {TARGET: stat()}, tcp=dict.fromkeys(after, 5)),
        snapshot(2.0, {TARGET: stat()}, tcp=after),
        [0],
    )
    assert seen.tcp_retransmits == lost


def test_a_duplicate_is_counted_where_its_report_is_sent() -> None:
    # As counted while requests of 64 KiB were sent to four proxies: each retransmission was a tail
    # loss probe that the receiver reported, and 14 of the reports were not counted when received.
    counted = {
        "RetransSegs": 1215,
        "TCPDSACKRecvSegs": 1201,
        "TCPDSACKOldSent": 1214,
        "TCPDSACKOfoSent": 1,
        "TCPLossProbes": 1215,
        "TCPLossProbeRecovery": 15,
    }
    seen = interval_change(
        snapshot(1.0, {TARGET: stat()}, tcp=dict.fromkeys(counted, 0)),
        snapshot(2.0, {TARGET: stat()}, tcp=counted),
        [0],
    )
    assert seen.tcp_retransmits == 0


def test_moves_between_cores_are_of_a_targets_threads() -> None:
    before = updated(snapshot(1.0, {TARGET: stat()}), migrations={TARGET: {1: 5, 2: 7}})
    after = updated(snapshot(3.0, {TARGET: stat()}), migrations={TARGET: {1: 6, 2: 7, 3: 4}})
    assert interval_change(before, after, [0]).migrations_per_second == {TARGET: 2.5}
    unseen = snapshot(3.0, {TARGET: stat()})
    assert interval_change(before, unseen, [0]).migrations_per_second == {}


def test_differences_are_of_the_cores_asked_about() -> None:
    before = snapshot(
        1.0,
        {TARGET: stat(user=10, system=30), FOREIGN: stat(user=5), ELSEWHERE: stat()},
        steal=1,
        tcp={"RetransSegs": 5},
    )
    after = snapshot(
        3.0,
        {
            TARGET: stat(user=25, system=45, faults=2),
            FOREIGN: stat(user=8, system=1),
            ELSEWHERE: stat(user=50, core=1),
            KERNEL: stat(system=50, parent=2),
        },
        steal=4,
        tcp={"RetransSegs": 7},
    )
    seen = interval_change(before, after, [0])
    assert seen.steal_fraction == 0.015
    assert seen.foreign_fraction == 0.02, (
        "the target, other cores and kernel threads are not foreign"
    )
    assert seen.tcp_retransmits == 2
    assert seen.user_fractions[TARGET] == 0.5
    assert seen.major_faults == {TARGET: 2}


def test_what_the_kernel_does_not_report_is_none_and_not_zero() -> None:
    before = snapshot(0, {TARGET: stat()})
    seen = interval_change(before, snapshot(1, {TARGET: stat()}), [0])
    assert seen.listen_overflows is None
    assert seen.user_fractions[TARGET] is None, "no ticks fell, so there is nothing to split"


def test_this_process_is_found_in_its_session() -> None:
    session = os.getsid(0)
    found = processes.process_tree(session, processes.all_processes())
    assert os.getpid() in found
    assert processes.rss_bytes(found) > 1_000_000
    assert processes.swap_bytes(found) >= 0
    seen = conditions.snapshot([session])
    assert os.getpid() in seen.targets[session]
    assert set(os.sched_getaffinity(0)) <= set(seen.steal)


def test_memory_of_a_process_that_ended_is_nothing() -> None:
    assert processes.rss_bytes([2**22 + 1]) == 0
