"""An experiment's definition and its result."""

from enum import StrEnum

import msgspec

from jissoku.model.arm import UnavailableTarget
from jissoku.model.run import CoreAssignment, Machine, Mode
from jissoku.model.summary import CrossCheck, Estimate, Summary
from jissoku.model.workload import Transport

SCHEMA = "jissoku.experiment/2"
RESULT_SCHEMA = "jissoku.outcome/1"


class Design(StrEnum):
    """Which combinations of the factors' levels become arms."""

    FULL = "full"  # every combination
    ONE_AT_A_TIME = "one-at-a-time"  # the base, each level alone, and all together
    FRACTIONAL = "fractional"  # a balanced part of all combinations, for factors of one level


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference from what a recipe says.

    Attributes:
        config: Name of one of the recipe's configuration files, in which `find`, which must stand
            there exactly once, is replaced by `replace`.
        add: Words that are put behind the command.
        environment: Variables that are set.
    """

    config: str = ""
    find: str = ""
    replace: str = ""
    add: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class TargetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A target of an experiment: a recipe or a command, with what is changed about it.

    Attributes:
        upstream: Where the server behind it listens, if it is a reverse proxy.
        substitutes: The server of the original whose idea it has, where that one cannot be had.
    """

    name: str
    recipe: str = ""
    command: str = ""
    change: tuple[ConfigChange, ...] = ()
    upstream: Transport = Transport.TCP
    substitutes: str = ""


class FactorLevel(msgspec.Struct, frozen=True, kw_only=True):
    """What one level of a factor changes; without a name the factor's own name says it."""

    change: tuple[ConfigChange, ...]
    name: str = ""


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """A factor of one target; its base level is the unchanged target."""

    name: str
    target: str
    level: tuple[FactorLevel, ...]


class WorkloadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A workload of an experiment.

    Attributes:
        arms: Participating arms, the baseline first; all arms when empty.
        body_size: Bytes of a request body; 0: there is none.
        shared_cores: Servers and load generator both have every core: for questions about more
            workers than a small machine could give a server of its own. Stamped, and never a claim
            on cost in absolute values.
    """

    name: str
    arms: tuple[str, ...] = ()
    path: str = "/"
    method: str = "GET"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    body_size: int = 0
    connections: int = 64
    pipeline: int = 1
    keepalive: bool = True
    unix: bool = False
    rate: int | None = None
    closed_loop: bool = False
    shared_cores: bool = False


class Microbenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A program that measures something itself, such as a microbenchmark, and prints its values.

    Attributes:
        recipe: Is made ready first, so that the command may name its `{program}` and `{cache}`.
        command: Prints lines of a name and a number above 0, and ends; run on the server's cores.
        rounds: How often it is run; a round is to its values what a block is to other ones.
        seconds: About how long a round takes, for the estimate of the whole.
    """

    name: str
    command: tuple[str, ...]
    recipe: str = ""
    rounds: int = 9
    seconds: float = 1.0


class BenchmarkOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a bench printed, one entry for each round, or why there is nothing."""

    rounds: tuple[dict[str, float], ...] = ()
    reason: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
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


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the original.

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


class UnobtainableTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the original that cannot be had, and what has its place."""

    name: str
    reason: str
    substitute: str = ""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment's file, word for word.

    Attributes:
        source: Who published the original, and what it was measured on.
        year: Of the original; 0 for an experiment without one.
    """

    name: str
    title: str
    description: str
    target: tuple[TargetSpec, ...]
    workload: tuple[WorkloadSpec, ...]
    claim: tuple[Claim, ...]
    source: str = ""
    year: int = 0
    design: Design = Design.ONE_AT_A_TIME
    factor: tuple[Factor, ...] = ()
    benchmark: tuple[Microbenchmark, ...] = ()
    published: tuple[PublishedFigure, ...] = ()
    unobtainable: tuple[UnobtainableTarget, ...] = ()


class ExperimentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing written into an experiment's folder: `experiment.json`.

    Attributes:
        unavailable: Targets that are not available on this machine.
        workloads: Names of those that will be run, in order; each has a folder of its own.
        skipped: Workloads that will not be run, each with the reason.
        minutes: How long it was estimated to take.
    """

    experiment: Experiment
    jissoku: str
    started_utc: str
    mode: Mode
    seed: int
    machine: Machine
    cores: CoreAssignment
    workloads: tuple[str, ...]
    skipped: dict[str, str] = msgspec.field(default_factory=dict)
    unavailable: tuple[UnavailableTarget, ...] = ()
    minutes: float = 0.0
    schema: str = SCHEMA


class ClaimStatus(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"


class InequalityResult(msgspec.Struct, frozen=True, kw_only=True):
    """One inequality, answered.

    Attributes:
        text: As the file writes it.
        value: Left side over right side without its number, with the 95 % interval; None for exact
            counts and where nothing was measured.
        bound: The number it is held against.
        measured: The same in words, for reports.
        blocks_needed: Of an undecided one: more blocks that would decide, at this spread.
        relation: What is said of value and bound: < or > or =.
        published: What the published values make of the same sides; None where they lack one.
        p_holm: Of the t-test against the bound, after Holm over all inequalities.
        cross_checks: The ratio of two costs, measured in other ways.
    """

    text: str
    status: ClaimStatus
    value: Estimate | None = None
    bound: float | None = None
    measured: str = ""
    remarks: tuple[str, ...] = ()
    blocks_needed: int | None = None
    relation: str = ""
    published: float | None = None
    p_holm: float | None = None
    cross_checks: tuple[CrossCheck, ...] = ()


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with its answer and what the answer rests on."""

    claim: Claim
    status: ClaimStatus
    inequalities: tuple[InequalityResult, ...] = ()
    remarks: tuple[str, ...] = ()


class PublishedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A published value and the measured one, both as ratios to their table's first row."""

    published: PublishedFigure
    ratio: float | None
    ours: Estimate | None
    our_ratio: Estimate | None
    remark: str = ""


class ExperimentResult(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment, answered: everything that its report shows.

    Attributes:
        summaries: Of each workload that was run, by name.
        headline: How many claims hold, in one sentence; filled in by the report.
    """

    header: ExperimentHeader
    claims: tuple[ClaimResult, ...]
    published: tuple[PublishedComparison, ...]
    summaries: dict[str, Summary]
    is_finished: bool
    headline: str = ""
    schema: str = RESULT_SCHEMA
