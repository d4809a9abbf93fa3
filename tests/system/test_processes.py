import os
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.system import processes
from jissoku.system.processes import (
    PROC,
    ProcessStat,
    all_processes,
    has_generated_code,
    process_tree,
    read_stat,
    start_ticks,
)

# A child in a session of its own, its child, and one that was started by the first again.
FAMILY = """
import os, sys
def child(leads):
    read, write = os.pipe()
    if not os.fork():
        if leads: os.setsid()
        print(os.getpid(), flush=True)
        if leads: child(False)
        sys.stdin.read()
        os._exit(0)
    os.wait()
child(True)
"""


def test_a_target_is_its_first_process_its_session_and_their_descendants() -> None:
    table = {
        1: ProcessStat(),
        7: ProcessStat(parent=1, session=7),
        8: ProcessStat(parent=7, session=8),
        9: ProcessStat(parent=8, session=8),
        10: ProcessStat(parent=1, session=7),
        11: ProcessStat(parent=1, session=1),
        12: ProcessStat(parent=10, session=12),
    }
    assert process_tree(7, table) == {7, 8, 9, 10, 12}
    assert process_tree(8, table) == {8, 9}
    assert process_tree(99, table) == process_tree(None, table) == set()


def test_parents_that_go_round_in_a_circle_end_the_search() -> None:
    table = {3: ProcessStat(parent=4), 4: ProcessStat(parent=3)}
    assert process_tree(7, table) == set()


def test_a_child_that_leads_a_session_is_found_with_its_own_children() -> None:
    command = [sys.executable, "-c", FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = {process.pid, *(int(process.stdout.readline()) for _ in range(2))}
        try:
            assert process_tree(process.pid) == pids
            assert os.getpid() not in process_tree(process.pid)
            assert pids < process_tree(os.getpid())
        finally:
            process.communicate()


def test_a_process_that_has_ended_is_no_process() -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        assert read_stat(PROC / str(process.pid)).start_ticks > 0
    assert process.pid not in all_processes()
    assert start_ticks(process.pid) == 0
    with pytest.raises(OSError, match="No such file"):
        read_stat(PROC / str(process.pid))


# What a program maps before it waits, and whether that is code made at run time.
MAPPINGS = {
    "nothing of its own": ("None", False),
    "data without a file": ("mmap.mmap(-1, 4096)", False),
    "its own program": ("mmap.mmap(program(), 4096, prot=CODE, **PRIVATE)", False),
    "code": ("mmap.mmap(-1, 4096, prot=CODE, **PRIVATE)", True),
    "code of a memfd": ("mmap.mmap(memory_file(), 4096, prot=CODE)", True),
}
WAITS = """
import mmap, os, sys
CODE, PRIVATE = mmap.PROT_READ | mmap.PROT_EXEC, dict(flags=mmap.MAP_PRIVATE)
def program():
    return os.open(sys.executable, os.O_RDONLY)
def memory_file():
    file = os.memfd_create("code")
    os.truncate(file, 4096)
    return file
kept = {}
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("mapped", "expected"), MAPPINGS.values(), ids=MAPPINGS)
def test_executable_memory_without_a_program_file_is_code_made_at_run_time(
    mapped: str, *, expected: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS.format(mapped)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        found = has_generated_code([process.pid])
        process.communicate()
    assert found is expected


def test_nothing_is_assumed_of_a_process_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "7" / "maps").mkdir(parents=True)
    monkeypatch.setattr("jissoku.system.processes.PROC", tmp_path)
    assert has_generated_code([7])
    assert not has_generated_code([8])


def test_what_was_used_between_two_readings_is_summed() -> None:
    assert processes.kernel_spent_ns({3: 100, 4: 50}, {3: 160, 4: 50, 9: 7}) == 67


def test_unreadable_threads_are_not_zero() -> None:
    assert processes.kernel_spent_ns({}, {}) is None


def test_kernel_threads_and_no_others_are_read() -> None:
    found = processes.kernel_cpu_ns()
    if not found:
        pytest.skip("the kernel's threads cannot be seen here, as in a container")
    assert os.getpid() not in found
    programs = [Path(f"/proc/{pid}/exe") for pid in found]
    assert not [path for path in programs if os.path.lexists(path) and path.exists()]
