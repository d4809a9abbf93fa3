"""An experiment as its file says it, and what came of it."""

from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.model.arm import Missing
from jissoku.model.run import Cores, Machine, Mode
from jissoku.model.summary import Estimate, Summary

SCHEMA = "jissoku.experiment/1"


class Design(StrEnum):
    """Which combinations of the factors' levels become arms."""

    FULL = "full"  # every combination
    ONE_AT_A_TIME = "one-at-a-time"  # the base, each level alone, and all together
    FRACTIONAL = "fractional"  # a balanced part of all combinations, for factors of one level


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference from what a recipe says.

    Attributes:
        config: Name of one of the recipe's configuration files, in which `find`, which must stand
            there exactly once, is replaced by `put`.
        add: Words that are put behind the command.
        environment: Variables that are set.
    """

    config: str = ""
    find: str = ""
    put: str = ""
    add: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A target of an experiment: a recipe or a command, with what is changed about it.

    Attributes:
        stands_for: The server of the original whose idea it has, where that one cannot be had.
    """

    name: str
    recipe: str = ""
    command: str = ""
    change: tuple[Change, ...] = ()
    stands_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What one level of a factor changes; without a name the factor's own name says it."""

    change: tuple[Change, ...]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A thing that is varied on one target; its base level is the target as it stands."""

    name: str
    of: str
    level: tuple[Level, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A workload of an experiment.

    Attributes:
        arms: Who takes part, the baseline first; everybody when nobody is named.
        shared_cores: Servers and stopwatch both have every core: for questions about more workers
            than a small machine could give a server of its own. Stamped, and never a claim on cost
            in absolute figures.
    """

    name: str
    arms: tuple[str, ...] = ()
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    connections: int = 64
    pipeline: int = 1
    keepalive: bool = True
    unix: bool = False
    rate: int | None = None
    closed_loop: bool = False
    shared_cores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A program that measures something itself, such as a microbenchmark, and prints its figures.

    Attributes:
        recipe: Is made ready first, so that the command may name its `{program}` and `{cache}`.
        command: Prints lines of a name and a number above 0, and ends; run on the server's cores.
        rounds: How often it is run; a round is to its figures what a block is to other ones.
        seconds: About how long a round takes, for the estimate of the whole.
    """

    name: str
    command: tuple[str, ...]
    recipe: str = ""
    rounds: int = 9
    seconds: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a bench printed, one entry for each round, or why there is nothing."""

    rounds: tuple[dict[str, float], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement that is tested, or the reason why it is not tested here.

    Attributes:
        test: Inequalities that must all hold (`jissoku.stats.claims` has the grammar).
        not_testable: Why there is no test.
        server_cores_min: With fewer cores for the server there is nothing to test.
    """

    name: str
    text: str
    test: tuple[str, ...] = ()
    not_testable: str = ""
    server_cores_min: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure of the original.

    Attributes:
        table: Rows of one table are shown as ratios to its first row.
        quantity: What of ours stands beside it, as claims write it: `rate(nginx@hello)`.
    """

    server: str
    value: float
    unit: str
    table: str = ""
    quantity: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A server of the original that cannot be had, and what has its place."""

    name: str
    reason: str
    stand_in: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment's file, word for word.

    Attributes:
        source: Who published the original, and what it was measured on.
        year: Of the original; 0 for an experiment that repeats nobody's.
    """

    name: str
    title: str
    essay: str
    target: tuple[Entrant, ...]
    workload: tuple[Setting, ...]
    claim: tuple[Claim, ...]
    source: str = ""
    year: int = 0
    design: Design = Design.ONE_AT_A_TIME
    factor: tuple[Factor, ...] = ()
    bench: tuple[Bench, ...] = ()
    published: tuple[Published, ...] = ()
    absent: tuple[Absent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first thing written into an experiment's folder: `experiment.json`.

    Attributes:
        missing: Targets that cannot be raced on this machine.
        workloads: Names of those that will be run, in order; each has a folder of its own.
        left_out: Workloads that will not be run, each with the reason.
        minutes: How long it was estimated to take.
    """

    experiment: Experiment
    jissoku: str
    started_utc: str
    mode: Mode
    seed: int
    machine: Machine
    cores: Cores
    workloads: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    minutes: float = 0.0
    schema: str = field(default=SCHEMA)


class Answered(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One inequality, answered.

    Attributes:
        text: As the file writes it.
        value: Left side over right side without its number, with the 95 % interval; None for exact
            counts and where nothing was measured.
        bound: The number it is held against.
        measured: The same in words, for reports.
        blocks_needed: Of an undecided one: more blocks that would decide, at this spread.
        relation: What is said of value and bound: < or > or =.
        published: What the published figures make of the same sides; None where they lack one.
    """

    text: str
    answer: Answered
    value: Estimate | None = None
    bound: float | None = None
    measured: str = ""
    remarks: tuple[str, ...] = ()
    blocks_needed: int | None = None
    relation: str = ""
    published: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """A claim with its answer and what the answer rests on."""

    claim: Claim
    answer: Answered
    tests: tuple[Tested, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A published figure, and ours beside it, both as ratios to their table's first row."""

    published: Published
    ratio: float | None
    ours: Estimate | None
    our_ratio: Estimate | None
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An experiment, answered: everything that its report shows."""

    header: Header
    claims: tuple[ClaimAnswer, ...]
    beside: tuple[Beside, ...]
    summaries: dict[str, Summary]
    is_finished: bool
