"""The grammar of every formula of the lab: claims of experiments, checks of load generators.

    comparison := sum { (< | > | =) sum }
    sum        := product { (+ | -) product }
    product    := factor { (* | /) factor }
    factor     := - factor | NUMBER | ( sum ) | FUNCTION ( sum {, sum} ) | reference
    reference  := NAME [ ( SUBJECT [@ WORKLOAD] ) ]

In `value` a name stands for a recorded number, as in `tool.requests`. In claims it is

    METRIC ( ARM [@ WORKLOAD] )   or   benchmark.NAME ( BENCHMARK )

As in `cost(tuned@hello) / cost(nginx@hello) < 0.9`, in `rate(one) < rate(two) < rate(three)`, which
is an order, or in `0.99 < p50(one) / p50(two) < 1.01`, which is a bound on both sides. Claims have
products only. `=` is for counts. Without a workload the experiment's first one is meant. A count
per request is exact and may be a factor beside measured values:
`calls(one) * benchmark.syscall_ns(here) / cost(one) < 0.25`.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jissoku.errors import InputError

Names = Mapping[str, float]

RELATIONS = "<>="
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


# Metrics with an interval over blocks, metrics that are exact counts, and their descriptions.
MEASURED = {
    "cost": "CPU nanoseconds of all the target's processes per request",
    "rate": "requests per second in the closed loop, alone",
    "p50": "median latency in nanoseconds, alone",
    "p95": "95th percentile of latency in nanoseconds, alone",
    "p99": "99th percentile of latency in nanoseconds, alone",
    "p999": "99.9th percentile of latency in nanoseconds, alone",
    "memory": "resident bytes of all the target's processes",
    "total_cpu": "as `cost`, plus load generator and kernel threads, closed loop, single target",
}
BENCHMARK = "benchmark"
COUNTERS = {
    "errors": "failed requests in all trials that count",
    "calls": "system calls per request; `calls.openat` counts one of them",
    "connections": "connections that had to be opened, per request",
    "segments": "TCP segments with data that an answer came in",
    "bytes": "bytes of an answer, head and body",
}
HELP = "write for example cost(one) / cost(two) < 0.9"

METRICS = (*MEASURED, *COUNTERS, f"{BENCHMARK}.NAME")

# Metrics whose names have a second part.
WITH_PART = frozenset({"calls", BENCHMARK})


@dataclass(frozen=True, slots=True)
class Quantity:
    """One value of one arm in one workload; an empty workload is the experiment's first.

    In `value` it is the name of a recorded number, without an arm.
    """

    metric: str
    arm: str = ""
    workload: str = ""

    @property
    def name(self) -> str:
        return self.metric.partition(".")[0]

    @property
    def part(self) -> str:
        """As in `calls.openat`; empty without."""
        return self.metric.partition(".")[2]

    @property
    def is_count(self) -> bool:
        return self.name in COUNTERS

    @property
    def is_benchmark(self) -> bool:
        """Whether it is a benchmark's value; the arm is then the benchmark."""
        return self.name == BENCHMARK

    @property
    def text(self) -> str:
        return f"{self.metric}({self.arm}{f'@{self.workload}' if self.workload else ''})"


@dataclass(frozen=True, slots=True)
class Operation:
    sign: str
    left: "Formula"
    right: "Formula"


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Formula", ...]


Formula = float | Quantity | Operation | Call


@dataclass(frozen=True, slots=True)
class Relation:
    """Formulas, and the relations between each and the next; one formula alone has none."""

    sides: tuple[Formula, ...]
    relations: tuple[str, ...]


def parse_formula(text: str) -> Relation:
    return _Parser(text).comparison()


def value(text: str, names: Names) -> float:
    """Evaluates a formula over recorded values.

    Raises:
        UnreportedValue: `names` lacks a name, or what it has gives no number, as 1 / 0.
    """
    read = parse_formula(text)
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
        case Quantity(name, arm):
            if arm:
                raise GrammarError(f"{name!r} is an unknown function")
            if name not in names:
                raise UnreportedValue(name)
            return names[name]
        case _:
            return formula


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def comparison(self) -> Relation:
        sides, relations = [self._sum()], []
        while relation := self._take(RELATIONS):
            relations.append(relation)
            sides.append(self._sum())
        if self._text[self._at :].strip():
            raise self._error()
        return Relation(tuple(sides), tuple(relations))

    def _sum(self, operators: Sequence[str] = ("+-", "*/")) -> Formula:
        """Operations of the loosest of some operators, and within them of the others."""
        if not operators:
            return self._factor()
        read = self._sum(operators[1:])
        while sign := self._take(operators[0]):
            read = Operation(sign, read, self._sum(operators[1:]))
        return read

    def _factor(self) -> Formula:
        if self._take("-"):
            return Operation("*", -1.0, self._factor())
        if self._take("("):
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
        return Quantity(found["name"], found["subject"] or "", found["workload"] or "")

    def _call(self, function: str) -> Call:
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        if function not in {"max", "min"} and len(arguments) > 1:
            raise GrammarError(f"{function!r} takes one argument, not {len(arguments)}")
        return Call(function, tuple(arguments))

    def _close(self) -> None:
        if not self._take(")"):
            raise self._error()

    def _take(self, signs: str) -> str:
        """The next sign, if it is one of these, which is then behind us; else nothing."""
        found = _TOKEN.match(self._text, self._at)
        if found is None or not found["sign"] or found["sign"] not in signs:
            return ""
        self._at = found.end()
        return found["sign"]

    def _error(self) -> GrammarError:
        rest = self._text[self._at :].strip()
        return GrammarError(f"cannot be read from {rest[:30]!r} on" if rest else "is incomplete")


@dataclass(frozen=True, slots=True)
class Inequality:
    """A relation of a ratio of quantities to its bound."""

    above: tuple[Quantity, ...]
    below: tuple[Quantity, ...]
    relation: str
    bound: float

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return (*self.above, *self.below)


def parse(text: str) -> tuple[Inequality, ...]:
    """Reads a claim's inequality; a chain gives one link for each of its relations."""
    try:
        read = parse_formula(text)
    except GrammarError as error:
        raise GrammarError(f"{error}: {HELP}") from error
    if not read.relations:
        raise GrammarError(f"compares nothing: {HELP}")
    sides = [_product(side) for side in read.sides]
    return tuple(map(_inequality, sides[:-1], read.relations, sides[1:]))


def quantity(text: str) -> Quantity:
    """Reads one quantity alone, as in `rate(nginx@hello)`."""
    read = parse_formula(text)
    if read.relations or not isinstance(read.sides[0], Quantity):
        raise GrammarError(f"{text!r} is not a quantity: write for example rate(nginx@hello)")
    return _checked(read.sides[0])


def _checked(read: Quantity) -> Quantity:
    name, dot, _ = read.metric.partition(".")
    known = name in MEASURED or name in COUNTERS or name == BENCHMARK
    if not known or (dot and name not in WITH_PART) or (name == BENCHMARK and not dot):
        raise GrammarError(f"{read.metric!r} is not a metric; there are {', '.join(METRICS)}")
    if not read.arm:
        raise GrammarError(f"{read.metric!r} needs a target: write {read.metric}(TARGET)")
    if name == BENCHMARK and read.workload:
        raise GrammarError(
            f"{read.text} does not belong to a workload: write {BENCHMARK}.NAME(BENCH)"
        )
    return read


# A number, quantities it is multiplied by, and those it is divided by.
_Product = tuple[float, tuple[Quantity, ...], tuple[Quantity, ...]]


def _product(side: Formula) -> _Product:
    number = 1.0
    quantities: dict[bool, list[Quantity]] = {True: [], False: []}
    for factor, is_above in _factors(side, is_above=True):
        if isinstance(factor, Quantity):
            quantities[is_above].append(_checked(factor))
        elif not is_above and factor == 0:
            raise GrammarError("nothing can be divided by 0")
        else:
            number = number * factor if is_above else number / factor
    return number, tuple(quantities[True]), tuple(quantities[False])


def _factors(side: Formula, *, is_above: bool) -> Iterator[tuple[float | Quantity, bool]]:
    """The factors of a product, and whether each is above the fraction line."""
    match side:
        case float() | Quantity():
            yield side, is_above
        case Operation("*" | "/" as sign, left, right):
            yield from _factors(left, is_above=is_above)
            yield from _factors(right, is_above=is_above == (sign == "*"))
        case _:
            raise GrammarError(f"has a sum or a function; a claim has products only: {HELP}")


def _inequality(left: _Product, relation: str, right: _Product) -> Inequality:
    left_number, left_above, left_below = left
    right_number, right_above, right_below = right
    above, below = (*left_above, *right_below), (*left_below, *right_above)
    quantities = (*above, *below)
    if not quantities:
        raise GrammarError("compares numbers only: name a quantity, as in cost(nginx)")
    counts = [q for q in quantities if q.is_count]
    only_counts = len(counts) == len(quantities)
    if len(quantities) > 1 and (only_counts or any(q.metric == "errors" for q in counts)):
        raise GrammarError(f"{counts[0].text} is a count: compare it with a number, alone")
    if not only_counts and relation == "=":
        raise GrammarError("no measured value equals another exactly: write 0.98 < A / B < 1.02")
    if not only_counts and (left_number <= 0 or right_number <= 0):
        raise GrammarError("a bound of a measured value is above 0")
    if only_counts and (not left_above or left_number != 1):
        raise GrammarError(f"write the count first: {counts[0].text} {relation} NUMBER")
    return Inequality(above, below, relation, right_number / left_number)
