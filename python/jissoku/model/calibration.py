"""Load generators: how each is run and read, checks of it, and the cost of its requests."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from jissoku.model.summary import Estimate
from jissoku.model.updated import updated

# Parameters of a load, by name: `connections = 64`.
ToolOptions = dict[str, Any]


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One expectation of a check.

    Attributes:
        of: An expression over values of the tool's report and of the oracle; `{each}` is replaced
            by each value of `each`.
        equals: An expression; or one of the two bounds instead.
        relative: Tolerated deviation of `of`, as a fraction of the expected value.
        absolute: The same in the value's unit, an expression; the two add up.
        says: A regular expression that the tool's report must match, instead of a value.
        required: Whether a tool that does not report the value fails; else it is not graded.
        is_timed: Whether it is void if the oracle was late; None: as the check.
    """

    of: str = ""
    each: tuple[str, ...] = ("",)
    equals: str | None = None
    at_least: str | None = None
    at_most: str | None = None
    relative: float = 0.0
    absolute: str = "0"
    says: str | None = None
    required: bool = False
    graded: bool = True
    is_timed: bool | None = None
    why: str = ""


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Disturbances of the tool or the clock during a run, in seconds after its start."""

    stop_at_s: float = 0.0
    stop_for_s: float = 0.0
    clock_step_s: float = 0.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a tool against one oracle.

    Attributes:
        oracle: Options of `jissoku oracle`.
        ask: Options that the tool must support; else it is not graded.
        wish: Options used if supported.
        quick: Replaces parts of `ask` in a quick session; None: it has no place in one.
        long: The same in a long session.
        share_of: Name of an earlier scenario of this check: the rate is `share` of the rate that
            the oracle measured there.
        when: Restricts it to one kind of session, where a longer sample has other values.
    """

    name: str
    oracle: dict[str, Any] = {}
    ask: ToolOptions
    wish: ToolOptions = {}
    quick: ToolOptions | None = None
    long: ToolOptions = {}
    share_of: str = ""
    share: float = 0.0
    when: Literal["always", "quick", "standard", "long"] = "always"
    closed: bool = False
    disturb: Disturbance | None = None
    expect: tuple[Expectation, ...] = ()

    def options(self, mode: str) -> ToolOptions | None:
        """What is asked of the tool in a session of this kind; None: nothing."""
        if self.when not in {"always", mode}:
            return None
        changes = {"quick": self.quick, "standard": {}, "long": self.long}[mode]
        return None if changes is None else self.ask | changes

    def seconds(self) -> float:
        asked = self.ask | self.wish
        return float(asked.get("duration_s") or asked.get("about_s") or 3.0)


class CalibrationCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One claim about a load generator, and why: what a failure means, and how it is detected.

    Timed values are void if the oracle was late. A check that steps the clock needs `clock`.
    """

    id: str
    title: str
    why: str
    is_timed: bool = True
    needs: str = ""
    setup: tuple[Scenario, ...]

    def is_void_if_late(self, expectation: Expectation) -> bool:
        return self.is_timed if expectation.is_timed is None else expectation.is_timed

    def variant(self, mode: str) -> "CalibrationCheck":
        """Its part in a session: `quick`, `standard` or `long`; it may have none."""
        asked = [(it, it.options(mode)) for it in self.setup]
        able = tuple(updated(it, ask=ask) for it, ask in asked if ask is not None)
        return updated(self, setup=able)


SCHEMA = "jissoku.calibration/1"


class Grade(StrEnum):
    A = "A"
    B = "B"
    F = "F"
    VOID = "void"
    NOT_OFFERED = "not offered"
    NOT_HERE = "not testable here"
    INFO = "info"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation, and the reported value; `void` is the disturbance that explains it."""

    setup: str
    what: str
    expected: str
    got: str
    grade: str
    tolerance: str = ""
    void: str = ""


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the tool, with all that is needed to grade it again.

    Attributes:
        exit_code: None if it had to be killed.
        account: The oracle's report; empty if nothing listened.
        figures: All known values, by dotted name.
        foreign: The fraction of the cores' time that foreign processes used meanwhile.
        report: The tool's output; a record has its beginning and its end.
    """

    setup: str
    oracle: dict[str, Any]
    command: str
    exit_code: int | None
    account: dict[str, Any]
    figures: dict[str, float]
    foreign: float
    report: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One check's result; `sentence` gives the reason for a missing grade, or qualifies one."""

    check: str
    title: str
    grade: str
    sentence: str = ""
    evidence: tuple[Evidence, ...] = ()
    runs: tuple[ScenarioRun, ...] = ()


class Scorecard(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one tool, in a session of at most this time with all repetitions.

    Checks that were not repeated stayed void because there was no time.
    """

    schema: str = SCHEMA
    tool: str
    about: str
    version: str
    jissoku: str
    started_utc: str
    mode: str
    machine: str
    is_finished: bool
    scores: tuple[Score, ...] = ()
    budget_s: float | None = None
    not_repeated: tuple[str, ...] = ()


class FigurePattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a value in a report.

    Attributes:
        pattern: The first group is a number, a second one its unit. Every match is added up.
        path: Names and numbers through JSON, as in `targets/0/errors/timeout`; several are added
            up, and so are the numbers of an object or of a list. `name=p99` finds it in a list of
            objects.
        highest: Of several paths, the highest counts instead of their sum.
        quantile: The value at `path` is a histogram (HdrHistogram V2, base64); its quantile, or -1
            for its number of samples.
        scale: Factor of the number.
        absent: The value if it is missing, because some tools print no line for zero.
    """

    pattern: str = ""
    path: str | tuple[str, ...] = ""
    quantile: float | None = None
    highest: bool = False
    scale: float = 1.0
    absent: float | None = None


class Samples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool's log of requests: comma-separated values in the run's folder, with a line of names.

    Attributes:
        start: The column from which a latency counts, in nanoseconds; `end` is that up to which.
        due: The column with the time at which a request was due, even if it failed.
        where: Columns that must have these values; other lines are not answered requests.
    """

    file: str
    start: str
    end: str
    due: str = ""
    where: dict[str, str] = {}


class Installation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a tool is installed, and a command whose output has its version as the pattern's group.

    The program is a name on the search path, or a path in the folder of tools.
    """

    program: str
    how: str
    version: tuple[str, ...]
    pattern: str


class CommandLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The command line of a tool, and files that are written into the run's folder before it.

    `say` has words for each parameter, in order; `reuse` applies unless each request has a new
    connection (`one_shot`). The report is the output of `then`, if there is such a command.
    """

    always: tuple[str, ...]
    say: dict[str, tuple[str, ...]]
    last: tuple[str, ...]
    then: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    files: dict[str, str] = {}


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One load generator, and its log of all requests, if it can write one.

    `deviates` has what its documentation names, by a check's id: such a failure is graded B.
    """

    name: str
    about: str
    get: Installation
    ask: CommandLine
    read: dict[str, FigurePattern]
    samples: Samples | None = None
    lacks: dict[str, str] = {}
    deviates: dict[str, str] = {}

    def unsupported_reason(self, ask: ToolOptions) -> str | None:
        """Why the tool does not support these parameters; None if it does."""
        for thing in ask:
            if thing not in self.ask.say and thing not in ("about_s", "unix"):
                return self.lacks.get(thing, f"{self.name} does not support {thing}")
        if "unix" in ask and "unix" not in self.ask.say:
            return self.lacks.get("unix", f"{self.name} has no Unix sockets")
        for thing in self.ask.requires:
            if thing not in ask:
                return self.lacks.get(f"without {thing}", f"{self.name} requires {thing}")
        return None

    def command(self, ask: ToolOptions, values: Mapping[str, str]) -> list[str]:
        """The command line for these parameters; `values` replace the placeholders."""
        everything = dict(values) | _option_values(ask)
        if "one_shot" not in ask:
            ask = ask | {"reuse": True}
        words = list(self.ask.always)
        for thing, spelling in self.ask.say.items():
            if thing in ask:
                words += spelling
        words += self.ask.last
        return [word.format_map(everything) for word in words]


class InstalledTool(msgspec.Struct, frozen=True, kw_only=True):
    tool: Tool
    program: str
    version: str


def _option_values(ask: ToolOptions) -> dict[str, Any]:
    words = dict(ask)
    for thing in ("duration_s", "timeout_s"):
        if thing in ask:
            words[thing] = f"{float(ask[thing]):g}"  # Some tools reject `3.0`.
            words[thing.replace("_s", "_whole_s")] = max(1, round(float(ask[thing])))
            words[thing.replace("_s", "_ms")] = round(float(ask[thing]) * 1000)
    if "rate" in ask:
        words["rate"] = round(float(ask["rate"]))
        words["rate_per_connection"] = f"{float(ask['rate']) / ask.get('connections', 1):g}"
        if "duration_s" in ask:
            words["rate_times_duration"] = round(float(ask["rate"]) * float(ask["duration_s"]))
    return words


COST_SCHEMA = "jissoku.cost/2"

# Two rates further apart than this are not the same work.
RATES_APART_MAX = 0.02


class CommandOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a parameter without an option is set for one tool, in place of `instead_of`.

    Its words end the command line; its files are written into the run's folder before it starts.
    """

    instead_of: str
    words: tuple[str, ...]
    files: dict[str, str] = {}


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of load: options of `jissoku oracle`, and those that both generators must support.

    `otherwise` has the exceptions, by the name of a tool.
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
    window_s: float
    cell: tuple[LoadPoint, ...]

    def over_unix(self) -> "LoadPoints":
        over = (updated(it, ask=it.ask | {"unix": True}) for it in self.cell)
        return updated(self, cell=tuple(over))


class ToolMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One generator in one window, in which these connections had an answer.

    Ticks are those in user code and in the kernel, as the kernel counts them.
    """

    tool: str
    answers: int = 0
    connections: int = 0
    cpu_ns: int = 0
    ticks: tuple[int, int] = (0, 0)
    errors: float | None = None
    exit_code: int | None = None
    command: str = ""
    report: str = ""

    @property
    def cost_ns(self) -> float:
        return self.cpu_ns / self.answers


class ToolPair(msgspec.Struct, frozen=True, kw_only=True):
    """Both generators in the same window.

    Attributes:
        round: Each measures every cell once.
        foreign: The fraction of the cores' time that foreign processes used meanwhile.
        late_ns: Lateness of the oracle at the 99th percentile, which affects both.
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
    """System calls of one generator by name, in a window in which nothing was timed.

    `void` says why they are invalid; empty if they are valid.
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
    """The result of a cell, from pairs of which some have rates more than 2 % apart.

    Costs are geometric means per answer; the ratio needs two valid pairs.
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

    The blocks of the geometric mean over all cells are the rounds in which all cells are valid.
    """

    schema: str = COST_SCHEMA
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
