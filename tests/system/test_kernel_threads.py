import os
from pathlib import Path

import pytest

from jissoku.system import processes


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
