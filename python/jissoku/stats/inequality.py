"""The grammar of the claims of experiments.

    inequality := side relation side [relation side ...]
    relation   := < | > | =
    side       := factor { (* | /) factor }
    factor     := NUMBER | METRIC ( ARM [@ WORKLOAD] ) | benchmark.NAME ( BENCHMARK )

As in `cost(tuned@hello) / cost(nginx@hello) < 0.9`, in `rate(one) < rate(two) < rate(three)`, which
is an order, or in `0.99 < p50(one) / p50(two) < 1.01`, which is a bound on both sides. `=` is for
counts. Without a workload the experiment's first one is meant. A count per request is exact and may
be a factor beside measured values: `calls(one) * benchmark.syscall_ns(here) / cost(one) < 0.25`.
"""

import re
from dataclasses import dataclass

# Metrics with an interval over blocks, metrics that are exact counts, and what each one is.
MEASURED = {
    "cost": "CPU nanoseconds of all the target's processes per request",
    "rate": "requests per second in the closed loop, alone",
    "p50": "median latency in nanoseconds, alone",
    "p99": "99th percentile of latency in nanoseconds, alone",
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

RELATIONS = ("<", ">", "=")

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d[\d_]*(?:\.\d+)?)"
    r"|(?P<metric>[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)?)\s*\(\s*(?P<arm>[^@()]+?)\s*"
    r"(?:@\s*(?P<workload>[^()]+?)\s*)?\)"
    r"|(?P<sign>[<>=*/]))"
)


class GrammarError(Exception):
    """A claim that cannot be read; the message says what would be."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure of one arm in one workload; an empty workload is the experiment's first."""

    metric: str
    arm: str
    workload: str = ""

    @property
    def is_count(self) -> bool:
        """Whether it is counted exactly, and has no interval."""
        return self.metric.partition(".")[0] in COUNTERS

    @property
    def is_benchmark(self) -> bool:
        """Whether a bench printed it; the arm is then the bench."""
        return self.metric.startswith(f"{BENCHMARK}.")

    @property
    def text(self) -> str:
        """As claims write it."""
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
        """Quantities in whose favour the left side grows."""
        return (*self.left.above, *self.right.below)

    @property
    def below(self) -> tuple[Quantity, ...]:
        """The quantities on the other side."""
        return (*self.left.below, *self.right.above)

    @property
    def bound(self) -> float:
        """The bound of the ratio of both sides' quantities."""
        return self.right.number / self.left.number

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """All of them."""
        return (*self.above, *self.below)


def parse(text: str) -> tuple[Inequality, ...]:
    """Reads a claim's inequality; a chain gives one link for each of its relations.

    Raises:
        GrammarError: It is none; the message quotes the place.
    """
    sides: list[list[tuple[str, float | Quantity]]] = [[]]
    relations: list[str] = []
    sign = "*"
    at = 0
    while at < len(text.rstrip()):
        found = TOKEN.match(text, at)
        if found is None:
            raise GrammarError(f"cannot be read from {text[at:].strip()[:30]!r} on: {_help()}")
        at = found.end()
        if found["sign"] in RELATIONS:
            _complete(sides[-1], sign)
            relations.append(found["sign"])
            sides.append([])
            sign = "*"
        elif found["sign"]:
            if sign or not sides[-1]:
                raise GrammarError(f"{found['sign']!r} stands between two factors")
            sign = found["sign"]
        else:
            if not sign:
                raise GrammarError(f"a sign is missing before {found[0].strip()!r}")
            sides[-1].append((sign, _factor(found)))
            sign = ""
    _complete(sides[-1], sign)
    if not relations:
        raise GrammarError(f"says nothing: {_help()}")
    read = [_side(factors) for factors in sides]
    links = tuple(map(Inequality, read[:-1], relations, read[1:]))
    for link in links:
        _check(link)
    return links


def quantity(text: str) -> Quantity:
    """Reads one quantity alone, as in `rate(nginx@hello)`.

    Raises:
        GrammarError: It is none.
    """
    found = TOKEN.fullmatch(text.strip())
    if found is None or not found["metric"]:
        raise GrammarError(f"{text!r} is not a quantity: write for example rate(nginx@hello)")
    read = _factor(found)
    assert isinstance(read, Quantity), "a match with a metric is a quantity"
    return read


def _factor(found: re.Match[str]) -> float | Quantity:
    if found["number"]:
        return float(found["number"].replace("_", ""))
    name, dot, _ = found["metric"].partition(".")
    known = name in MEASURED or name in COUNTERS or name == BENCHMARK
    if not known or (dot and name not in WITH_PART) or (name == BENCHMARK and not dot):
        raise GrammarError(f"{found['metric']!r} is not a metric; there are {', '.join(METRICS)}")
    if name == BENCHMARK and found["workload"]:
        raise GrammarError(
            f"{found[0].strip()} does not belong to a workload: write {BENCHMARK}.NAME(BENCH)"
        )
    return Quantity(found["metric"], found["arm"], found["workload"] or "")


def _complete(factors: list[tuple[str, float | Quantity]], sign: str) -> None:
    if not factors or sign:
        raise GrammarError(f"a side is not complete: {_help()}")


def _side(factors: list[tuple[str, float | Quantity]]) -> Product:
    number = 1.0
    for sign, factor in factors:
        if isinstance(factor, float):
            if sign == "/" and factor == 0:
                raise GrammarError("nothing can be divided by 0")
            number = number * factor if sign == "*" else number / factor
    above = tuple(f for s, f in factors if isinstance(f, Quantity) and s == "*")
    below = tuple(f for s, f in factors if isinstance(f, Quantity) and s == "/")
    return Product(number, above, below)


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
    return "write for example cost(one@hello) / cost(two@hello) < 0.9"
