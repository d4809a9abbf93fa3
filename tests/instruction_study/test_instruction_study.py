"""The study counts what a request takes, the same each time."""

import shutil

import pytest

from tests.instruction_study.__main__ import PACKAGE, count

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]


def test_a_fixed_text_takes_the_same_instructions_each_time() -> None:
    first, second = (count("fixed", PACKAGE, 50) for _ in range(2))
    # Receive, send, and wait for the next request.
    assert first.system_calls == pytest.approx(3, abs=0.2)
    assert first.instructions == pytest.approx(second.instructions, rel=0.1)
    functions = first.functions
    assert sum(functions.values()) == pytest.approx(first.instructions, rel=0.1)
