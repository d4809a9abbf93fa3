"""The grammar of every formula of the lab: claims of experiments, checks of load generators.

    comparison := sum { (< | > | =) sum }
    sum        := product { (+ | -) product }
    product    := factor { (* | /) factor }
    factor     := - factor | NUMBER | ( sum ) | FUNCTION ( sum {, sum} ) | reference
    reference  := NAME [ ( SUBJECT [@ WORKLOAD] ) ]

What a name stands for is decided elsewhere: in `inequality.py` it is a metric of an arm, as in
`cost(nginx@hello)`; in `value` it is a recorded number, as in `tool.requests`.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jissoku.errors import InputError

Names = Mapping[str, float]

RELATIONS = ("<", ">", "=")
OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., float]] = {
    "max": max, "min": min, "abs": abs, "sqrt": math.sqrt,
}  # fmt: skip
# `known(x)` is 0 where `x` is not reported.
KNOWN = "known"

_FUNCTION = rf"(?:{'|'.join((*FUNCTIONS, KNOWN))})\s*\("
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)"
    rf"|(?P<function>{_FUNCTION})"
    r"|(?P<name>[a-z_]\w*(?:\.\w+)*)"
    r"(?:\s*\(\s*(?P<subject>[^@()]+?)\s*(?:@\s*(?P<workload>[^()]+?)\s*)?\))?"
    r"|(?P<sign>[-+*/(),<>=]))"
)


class GrammarError(InputError):
    """A formula that cannot be read; the message quotes the place."""


class UnreportedValue(Exception):  # noqa: N818 - an unreported value is not an error
    """A value that the formula needs was not recorded."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name, with what stands in parentheses behind it; both are empty where nothing does."""

    name: str
    subject: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Two operands and `+`, `-`, `*` or `/`."""

    sign: str
    left: "Formula"
    right: "Formula"


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Formula", ...]


Formula = float | Reference | Operation | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """Formulas, and the relations between each and the next; one formula alone has none."""

    sides: tuple[Formula, ...]
    relations: tuple[str, ...]


def parse(text: str) -> Comparison:
    """Reads a formula or a comparison of several.

    Raises:
        GrammarError: It is neither.
    """
    return _Parser(text).comparison()


def value(text: str, names: Names) -> float:
    """Evaluates a formula over recorded values.

    Raises:
        UnreportedValue: `names` lacks a name, or what it has gives no number, as 1 / 0.
        GrammarError: It is not a formula.
    """
    read = parse(text)
    if read.relations:
        raise GrammarError(f"{text!r} compares; only arithmetic is possible here")
    try:
        return _value(read.sides[0], names)
    except (ZeroDivisionError, ValueError) as error:  # ValueError: the root of a negative
        raise UnreportedValue(text) from error


def _value(formula: Formula, names: Names) -> float:
    match formula:
        case Operation(sign, left, right):
            return OPERATORS[sign](_value(left, names), _value(right, names))
        case Call(function, arguments) if function == KNOWN:
            try:
                return _value(arguments[0], names)
            except UnreportedValue:
                return 0.0
        case Call(function, arguments):
            return FUNCTIONS[function](*(_value(argument, names) for argument in arguments))
        case Reference(name, subject):
            if subject:
                raise GrammarError(f"{name!r} is an unknown function")
            if name not in names:
                raise UnreportedValue(name)
            return names[name]
        case _:
            return formula


class _Parser:
    """A recursive descent: one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def comparison(self) -> Comparison:
        sides, relations = [self._sum()], []
        while relation := self._take(RELATIONS):
            relations.append(relation)
            sides.append(self._sum())
        if self._rest():
            raise self._error()
        return Comparison(tuple(sides), tuple(relations))

    def _sum(self) -> Formula:
        return self._operations(("+", "-"), self._product)

    def _product(self) -> Formula:
        return self._operations(("*", "/"), self._factor)

    def _operations(self, signs: tuple[str, ...], operand: Callable[[], Formula]) -> Formula:
        read = operand()
        while sign := self._take(signs):
            read = Operation(sign, read, operand())
        return read

    def _factor(self) -> Formula:
        if self._take(("-",)):
            return Operation("*", -1.0, self._factor())
        if self._take(("(",)):
            read = self._sum()
            self._close()
            return read
        found = _TOKEN.match(self._text, self._at)
        if found is None or found["sign"]:
            raise self._error()
        self._at = found.end()
        if found["number"]:
            return float(found["number"])
        if found["function"]:
            return self._call(found["function"].rstrip(" \t\n("))
        return Reference(found["name"], found["subject"] or "", found["workload"] or "")

    def _call(self, function: str) -> Call:
        arguments = [self._sum()]
        while self._take((",",)):
            arguments.append(self._sum())
        self._close()
        if function not in {"max", "min"} and len(arguments) > 1:
            raise GrammarError(f"{function!r} takes one argument, not {len(arguments)}")
        return Call(function, tuple(arguments))

    def _close(self) -> None:
        if not self._take((")",)):
            raise self._error()

    def _take(self, signs: tuple[str, ...]) -> str:
        """The next sign, if it is one of these, which is then behind us; else nothing."""
        found = _TOKEN.match(self._text, self._at)
        if found is None or found["sign"] not in signs:
            return ""
        self._at = found.end()
        return found["sign"]

    def _rest(self) -> str:
        return self._text[self._at :].strip()

    def _error(self) -> GrammarError:
        rest = self._rest()
        return GrammarError(f"cannot be read from {rest[:30]!r} on" if rest else "is incomplete")
