"""The cost of a request for a load generator: the loads, the measurements and the results."""

import math
from typing import Any

import msgspec

from jissoku.model.calibration import ToolOptions
from jissoku.model.load_tool import Tool
from jissoku.model.summary import Estimate
from jissoku.model.updated import updated

SCHEMA = "jissoku.cost/2"

# Two rates further apart than this are not the same work.
RATES_APART_MAX = 0.02


class CommandOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a parameter without an option is set for one tool.

    Attributes:
        instead_of: The parameter that its description does not offer.
        words: The end of its command line.
        files: Written into the run's folder before it starts.
    """

    instead_of: str
    words: tuple[str, ...]
    files: dict[str, str] = {}


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of load.

    Attributes:
        oracle: Options of `jissoku oracle`.
        ask: Options that both generators must support.
        otherwise: By the name of a tool.
    """

    name: str
    oracle: dict[str, Any]
    ask: ToolOptions
    otherwise: dict[str, CommandOverride] = {}

    def options_for(self, tool: Tool) -> ToolOptions:
        """Options for the tool; a single thread if supported."""
        text = self.ask | ({"threads": 1} if "threads" in tool.ask.say else {})
        if tool.name in self.otherwise:
            text = {k: v for k, v in text.items() if k != self.otherwise[tool.name].instead_of}
        return text

    def unsupported_reason(self, tool: Tool) -> str | None:
        """Why the tool does not support this load; None if it does."""
        return tool.unsupported_reason(self.options_for(tool) | {"duration_s": 1})


class LoadPoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data file: durations and loads."""

    window_s: float
    cell: tuple[LoadPoint, ...]

    def over_unix(self) -> "LoadPoints":
        """The same over Unix sockets."""
        over = (updated(it, ask=it.ask | {"unix": True}) for it in self.cell)
        return updated(self, cell=tuple(over))


class ToolMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One generator in one window.

    Attributes:
        answers: Answers of the oracle to this generator within the window.
        connections: Connections with an answer within the window.
        cpu_ns: CPU nanoseconds of its processes meanwhile.
        ticks: Ticks in user code and in the kernel, as the kernel counts them.
        errors: From its report; None if the report has none.
    """

    tool: str
    answers: int
    connections: int
    cpu_ns: int
    ticks: tuple[int, int]
    errors: float | None
    exit_code: int | None
    command: str
    report: str

    @property
    def cost_ns(self) -> float:
        """CPU time of an answer."""
        return self.cpu_ns / self.answers


class ToolPair(msgspec.Struct, frozen=True, kw_only=True):
    """Both generators in the same window.

    Attributes:
        round: From 0; each round measures every cell once.
        first: Index of the side that was started first.
        sides: The tool, and the one that it is compared with.
        foreign: The fraction of the cores' time that foreign processes used meanwhile.
        late_ns: Lateness of the oracle at the 99th percentile, which affects both.
        void: Why it is invalid; empty if it is valid.
    """

    cell: str
    round: int
    first: int
    window_ns: int
    sides: tuple[ToolMeasurement, ToolMeasurement]
    foreign: float
    late_ns: int
    void: str = ""

    @property
    def log_ratio(self) -> float:
        """ln(CPU time per answer of the tool / CPU time per answer of the other)."""
        return math.log(self.sides[0].cost_ns / self.sides[1].cost_ns)

    @property
    def are_rates_apart(self) -> bool:
        """Whether the rates of the two differ: the pair is valid, with a warning."""
        one, other = (side.answers for side in self.sides)
        return abs(math.log(one / other)) > math.log1p(RATES_APART_MAX)


class SyscallCounts(msgspec.Struct, frozen=True, kw_only=True):
    """System calls of one generator in a window of its own, in which nothing was timed.

    Attributes:
        answers: Answers of the oracle within the window.
        counts: Calls by name.
        void: Why they are invalid; empty if they are valid.
    """

    cell: str
    tool: str
    window_ns: int
    answers: int
    counts: dict[str, int]
    void: str = ""

    def per_answer(self) -> dict[str, float]:
        """Calls per answer by name, the most frequent first; empty if they are invalid."""
        if self.void or not self.answers:
            return {}
        ordered = sorted(self.counts.items(), key=lambda it: (-it[1], it[0]))
        return {name: count / self.answers for name, count in ordered}


class CostResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cell.

    Attributes:
        ratio: The tool's cost over the other's; None from fewer than two valid pairs.
        cost_ns: Geometric mean of each, per answer.
        rates_rps: Mean of each.
        user_fractions: Fraction of user code of each; None from too few ticks.
        apart: Pairs whose rates differ by more than 2 %.
        unsupported_reason: Why there are no pairs.
    """

    cell: str
    pairs: int = 0
    void: int = 0
    apart: int = 0
    ratio: Estimate | None = None
    cost_ns: tuple[float, float] | None = None
    rates_rps: tuple[float, float] | None = None
    user_fractions: tuple[float | None, float | None] = (None, None)
    unsupported_reason: str = ""


class CostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements of one generator compared with another.

    Attributes:
        overall: Geometric mean over the cells; its blocks are the rounds in which all of them
            are valid.
        calls: Of each tool under each load, counted after the pairs.
        calls_reason: Why there are none.
    """

    schema: str = SCHEMA
    tool: str
    against: str
    versions: tuple[str, str]
    jissoku: str
    started_utc: str
    machine: str
    transport: str
    rounds: int
    window_s: float
    is_finished: bool
    cells: tuple[LoadPoint, ...]
    figures: tuple[CostResult, ...] = ()
    overall: Estimate | None = None
    pairs: tuple[ToolPair, ...] = ()
    calls: tuple[SyscallCounts, ...] = ()
    calls_reason: str = ""
