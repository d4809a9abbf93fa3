import pytest

from jissoku.errors import InputError
from jissoku.stats.expression import UnreportedValue, value

NAMES = {"tool.rate": 100.0, "tool.mean_ns": 10e6, "asked.connections": 1.0, "zero": 0.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500e6", 500e6),
        ("tool.rate * tool.mean_ns / 1e9", 1.0),
        ("known(tool.nothing) + 2", 2.0),
        ("max(tool.rate, 7) - -1", 101.0),
        ("abs(1 - 3)", 2.0),
        ("0.25 * sqrt(36 / 4)", 0.75),
    ],
)
def test_arithmetic_over_figures(text: str, expected: float) -> None:
    assert value(text, NAMES) == expected


@pytest.mark.parametrize("text", ["tool.nothing", "1 / zero", "tool.rate + tool.nothing"])
def test_what_is_not_there_is_said(text: str) -> None:
    with pytest.raises(UnreportedValue):
        value(text, NAMES)


@pytest.mark.parametrize("text", ["", "1 +", "open('x')", "'text'", "[1]", "tool.rate ** 2"])
def test_nothing_but_arithmetic_is_evaluated(text: str) -> None:
    with pytest.raises(InputError):
        value(text, NAMES)
