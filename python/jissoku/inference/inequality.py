"""Claims of experiments: comparisons of products of metrics.

The grammar is that of `inference/expression.py`, with products only and, for a name,

    METRIC ( ARM [@ WORKLOAD] )   or   benchmark.NAME ( BENCHMARK )

As in `cost(tuned@hello) / cost(nginx@hello) < 0.9`, in `rate(one) < rate(two) < rate(three)`, which
is an order, or in `0.99 < p50(one) / p50(two) < 1.01`, which is a bound on both sides. `=` is for
counts. Without a workload the experiment's first one is meant. A count per request is exact and may
be a factor beside measured values: `calls(one) * benchmark.syscall_ns(here) / cost(one) < 0.25`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jissoku.inference import expression
from jissoku.inference.expression import Formula, GrammarError, Operation, Reference

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
METRICS = (*MEASURED, *COUNTERS, f"{BENCHMARK}.NAME")

# Metrics whose names have a second part.
WITH_PART = frozenset({"calls", BENCHMARK})


@dataclass(frozen=True, slots=True)
class Quantity:
    """One value of one arm in one workload; an empty workload is the experiment's first."""

    metric: str
    arm: str
    workload: str = ""

    @property
    def is_count(self) -> bool:
        """Whether it is an exact count without an interval."""
        return self.metric.partition(".")[0] in COUNTERS

    @property
    def is_benchmark(self) -> bool:
        """Whether it is a benchmark's value; the arm is then the benchmark."""
        return self.metric.startswith(f"{BENCHMARK}.")

    @property
    def text(self) -> str:
        """In the grammar of claims."""
        return f"{self.metric}({self.arm}{f'@{self.workload}' if self.workload else ''})"


@dataclass(frozen=True, slots=True)
class Product:
    """A product: a number, quantities it is multiplied by, and those it is divided by."""

    number: float
    above: tuple[Quantity, ...]
    below: tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class Inequality:
    """Two sides and their relation."""

    left: Product
    relation: str
    right: Product

    @property
    def above(self) -> tuple[Quantity, ...]:
        """Quantities that increase the left side."""
        return (*self.left.above, *self.right.below)

    @property
    def below(self) -> tuple[Quantity, ...]:
        return (*self.left.below, *self.right.above)

    @property
    def bound(self) -> float:
        """The bound of the ratio of both sides' quantities."""
        return self.right.number / self.left.number

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return (*self.above, *self.below)


def parse(text: str) -> tuple[Inequality, ...]:
    """Reads a claim's inequality; a chain gives one link for each of its relations.

    Raises:
        GrammarError: It is not an inequality; the message quotes the place.
    """
    try:
        read = expression.parse(text)
    except GrammarError as error:
        raise GrammarError(f"{error}: {_help()}") from error
    if not read.relations:
        raise GrammarError(f"compares nothing: {_help()}")
    sides = [_product(side) for side in read.sides]
    links = tuple(map(Inequality, sides[:-1], read.relations, sides[1:]))
    for link in links:
        _check(link)
    return links


def quantity(text: str) -> Quantity:
    """Reads one quantity alone, as in `rate(nginx@hello)`.

    Raises:
        GrammarError: It is not a quantity.
    """
    read = expression.parse(text)
    if read.relations or not isinstance(read.sides[0], Reference):
        raise GrammarError(f"{text!r} is not a quantity: write for example rate(nginx@hello)")
    return _quantity(read.sides[0])


def _quantity(read: Reference) -> Quantity:
    name, dot, _ = read.name.partition(".")
    known = name in MEASURED or name in COUNTERS or name == BENCHMARK
    if not known or (dot and name not in WITH_PART) or (name == BENCHMARK and not dot):
        raise GrammarError(f"{read.name!r} is not a metric; there are {', '.join(METRICS)}")
    if not read.subject:
        raise GrammarError(f"{read.name!r} needs a target: write {read.name}(TARGET)")
    if name == BENCHMARK and read.workload:
        raise GrammarError(
            f"{read.name}({read.subject}@{read.workload}) does not belong to a workload: "
            f"write {BENCHMARK}.NAME(BENCH)"
        )
    return Quantity(read.name, read.subject, read.workload)


def _product(side: Formula) -> Product:
    number = 1.0
    quantities: dict[bool, list[Quantity]] = {True: [], False: []}
    for factor, is_above in _factors(side, is_above=True):
        if isinstance(factor, Reference):
            quantities[is_above].append(_quantity(factor))
        elif not is_above and factor == 0:
            raise GrammarError("nothing can be divided by 0")
        else:
            number = number * factor if is_above else number / factor
    return Product(number, tuple(quantities[True]), tuple(quantities[False]))


def _factors(side: Formula, *, is_above: bool) -> Iterator[tuple[float | Reference, bool]]:
    """The factors of a product, and whether each is above the fraction line."""
    match side:
        case float() | Reference():
            yield side, is_above
        case Operation("*" | "/" as sign, left, right):
            yield from _factors(left, is_above=is_above)
            yield from _factors(right, is_above=is_above == (sign == "*"))
        case _:
            raise GrammarError(f"has a sum or a function; a claim has products only: {_help()}")


def _check(link: Inequality) -> None:
    if not link.quantities:
        raise GrammarError("compares numbers only: name a quantity, as in cost(nginx)")
    counts = [q for q in link.quantities if q.is_count]
    alone = len(counts) == len(link.quantities)
    if len(link.quantities) > 1 and (alone or any(q.metric == "errors" for q in counts)):
        raise GrammarError(f"{counts[0].text} is a count: hold it against a number, alone")
    if not alone and link.relation == "=":
        raise GrammarError("no measured value equals another exactly: write 0.98 < A / B < 1.02")
    if not alone and (link.left.number <= 0 or link.right.number <= 0):
        raise GrammarError("a bound of a measured value is above 0")
    if alone and (not link.left.above or link.left.number != 1):
        raise GrammarError(f"write the count first: {counts[0].text} {link.relation} NUMBER")


def _help() -> str:
    return "write for example cost(one) / cost(two) < 0.9"
