import os
import subprocess
import sys

import pytest

from jissoku.measure.oracle import ForeignCpuMonitor, others_ticks, steal_ticks
from jissoku.system.processes import ProcessStat, all_processes, core_times

TEXT = """cpu  10 0 10 100 5 0 0 0 0 0
cpu0 1000 100 200 9999 777 10 20 70 300 0
cpu1 500 0 0 9999 0 0 0 5 0 0
intr 1 2 3
"""

US = 100


def process(parent: int, ran: tuple[int, int, int, int], core: int = 0) -> ProcessStat:
    return ProcessStat(
        parent=parent,
        core=core,
        user_ticks=ran[0],
        system_ticks=ran[1],
        children_user_ticks=ran[2],
        children_system_ticks=ran[3],
    )


def test_what_the_host_took_is_others() -> None:
    assert steal_ticks(core_times(TEXT), (0,)) == 70
    assert steal_ticks(core_times(TEXT), (0, 1)) == 75
    assert steal_ticks(core_times(TEXT), (7,)) == 0


def test_ours_and_the_kernels_are_not_others() -> None:
    table = {
        1: process(0, (1, 2, 0, 0)),
        2: process(0, (9, 9, 9, 9)),
        3: process(2, (9, 9, 9, 9)),
        US: process(1, (10, 20, 99, 99)),
        101: process(US, (99, 99, 99, 99)),
        102: process(101, (99, 99, 99, 99)),
        50: process(1, (100, 200, 300, 400)),
        51: process(1, (99, 99, 99, 99), core=1),
    }
    assert others_ticks(table, US, (0,)) == 3 + 30 + 1000


def test_who_ends_loses_no_time() -> None:
    before = {1: process(0, (0, 0, 5, 0)), 7: process(1, (30, 3, 2, 0))}
    after = {1: process(0, (0, 0, 35, 5))}
    assert others_ticks(before, US, (0,)) == others_ticks(after, US, (0,)) == 40


def test_our_own_children_are_ours() -> None:
    cores = tuple(range(os.cpu_count() or 1))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        table = all_processes()
        family = {pid: table[pid] for pid in (os.getpid(), child.pid)}
        ran = table[os.getpid()].cpu_ticks
        assert others_ticks(family, os.getpid(), cores) == ran
        assert others_ticks(family, child.pid, cores) >= ran
    finally:
        child.communicate()


@pytest.mark.parametrize(("others", "is_seen"), [(1000, True), (0, False)])
def test_what_others_ran_meanwhile_is_a_part_of_the_cores_time(
    others: int, *, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No core of the machine has this number, so that what its host takes is left out.
    tables = iter([{1: process(0, (0, ran, 0, 0), core=9999)} for ran in (70, 70 + others)])
    monkeypatch.setattr("jissoku.system.processes.all_processes", lambda: next(tables))
    monitor = ForeignCpuMonitor((9999,))
    assert (monitor.foreign_fraction() > 0) is is_seen
