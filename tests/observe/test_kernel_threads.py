import os
from pathlib import Path

import pytest

from jissoku.observe import kernel_threads


def test_what_was_used_between_two_readings_is_summed() -> None:
    assert kernel_threads.spent_ns({3: 100, 4: 50}, {3: 160, 4: 50, 9: 7}) == 67


def test_threads_that_nobody_can_see_are_no_zero() -> None:
    assert kernel_threads.spent_ns({}, {}) is None


def test_every_thread_of_the_kernel_is_read_and_nobody_else() -> None:
    found = kernel_threads.cpu_ns()
    if not found:
        pytest.skip("the kernel's threads cannot be seen here, as in a container")
    assert os.getpid() not in found
    programs = [Path(f"/proc/{pid}/exe") for pid in found]
    assert not [path for path in programs if os.path.lexists(path) and path.exists()]
