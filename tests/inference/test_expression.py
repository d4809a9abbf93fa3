import pytest

from jissoku.errors import InputError
from jissoku.inference.expression import (
    Operation,
    Quantity,
    Relation,
    UnreportedValue,
    parse_formula,
    value,
)

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
        ("8 - 2 - 1 + 2 * 3", 11.0),
        ("8 / 2 / 2", 2.0),
        ("2 * (1 + 3)", 8.0),
        ("-2 * -(3 - 1)", 4.0),
        ("1_000 + 1.5e-1", 1000.15),
    ],
)
def test_arithmetic_over_recorded_values(text: str, expected: float) -> None:
    assert value(text, NAMES) == expected


@pytest.mark.parametrize("text", ["tool.nothing", "1 / zero", "tool.rate + tool.nothing"])
def test_an_unreported_value_is_an_exception(text: str) -> None:
    with pytest.raises(UnreportedValue):
        value(text, NAMES)


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "open('x')", "'text'", "[1]", "tool.rate ** 2",
     "abs(1, 2)", "sqrt()", "(1", "1)", "1 2", "1 < 2", "cost(arm)"],
)  # fmt: skip
def test_only_arithmetic_is_evaluated(text: str) -> None:
    with pytest.raises(InputError):
        value(text, NAMES)


def test_a_reference_keeps_the_subject_as_it_is_written() -> None:
    assert parse_formula("2 * cost(nginx+all-x @ one file) > p50( a )") == Relation(
        (
            Operation("*", 2.0, Quantity("cost", "nginx+all-x", "one file")),
            Quantity("p50", "a"),
        ),
        (">",),
    )
