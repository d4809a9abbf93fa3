"""What is made of several runs: sweeps with their model, and experiments with claims."""

from enum import StrEnum

import msgspec

from jissoku.model import summary
from jissoku.model.run import Arm, CoreAssignment, Machine, Mode, Run, Transport, UnavailableTarget

SWEEP_SCHEMA = "jissoku.sweep/2"
SWEEP_SUMMARY_SCHEMA = "jissoku.sweep-summary/2"


class Axis(StrEnum):
    CONNECTIONS = "connections"
    WORKERS = "workers"
    RATE = "rate"


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a sweep: `sweep.json` in its folder.

    Attributes:
        levels: Ascending; empty if the lab chooses them after a pilot run. Each trial records its
            own.
        blocks: How often each level is measured, in a new random order each time.
        at: Levels at which a rate is predicted, if the fit supports it.
    """

    axis: Axis
    levels: tuple[int, ...]
    blocks: int
    at: tuple[int, ...] = ()
    schema: str = SWEEP_SCHEMA


class IntervalEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """A value with its 95 % interval by block bootstrap, which may include zero."""

    value: float
    low: float
    high: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The model's rate at a level; None with a reason if the fit does not support it."""

    level: int
    rate_rps: IntervalEstimate | None
    reason: str = ""


class UslModel(msgspec.Struct, frozen=True, kw_only=True):
    """The Universal Scalability Law, X(N) = k N / (1 + a (N - 1) + b N (N - 1)), fitted.

    Attributes:
        single_rps: k, the rate at level 1.
        contention: a, the fraction of the work that is serialised.
        coherency: b, the cost of exchange between each pair.
        curve: (level, rate) of the fitted model, for drawing, within the fitted levels.
        peak: sqrt((1 - a) / b), if b's interval excludes zero and the peak is at most twice the
            highest level.
    """

    single_rps: IntervalEstimate
    contention: IntervalEstimate
    coherency: IntervalEstimate
    levels: tuple[int, ...]
    blocks: int
    curve: tuple[tuple[float, float], ...]
    max_residual: float
    is_adequate: bool
    peak: IntervalEstimate | None = None
    peak_reason: str = ""
    predictions: tuple[Prediction, ...] = ()


class LevelResult(msgspec.Struct, frozen=True, kw_only=True):
    """One target at one level.

    The achieved fraction is the smallest answered part of the offered rate, if there was one.
    """

    level: int
    blocks: int
    rate_rps: summary.Estimate | None = None
    cost_ns: summary.Estimate | None = None
    percentiles: tuple[summary.Percentile, ...] = ()
    bottleneck: summary.Bottleneck = summary.Bottleneck.UNKNOWN
    achieved_fraction: float | None = None
    is_fitted: bool = False
    remarks: tuple[str, ...] = ()


class TargetSweep(msgspec.Struct, frozen=True, kw_only=True):
    """One target over all levels; without a model there is a reason.

    In sweeps of the rate, `sustained_rps` is the highest level up to which every block answered.
    """

    arm: Arm
    status: summary.MeasurementStatus
    results: tuple[LevelResult, ...]
    model: UslModel | None = None
    reason: str = ""
    sustained_rps: int | None = None
    failures: tuple[summary.FailureSummary, ...] = ()
    sentence: str = ""


class SweepSummary(msgspec.Struct, frozen=True, kw_only=True):
    run: Run
    sweep: Sweep
    targets: tuple[TargetSweep, ...]
    warnings: tuple[summary.ReportWarning, ...] = ()
    trials_total: int = 0
    trials_valid: int = 0
    trials_rejected: int = 0
    schema: str = SWEEP_SUMMARY_SCHEMA


SCHEMA = "jissoku.experiment/2"
RESULT_SCHEMA = "jissoku.outcome/1"


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a recipe: a replacement in one of its configuration files, or added words.

    `find` occurs exactly once in the file; words are appended to the command.
    """

    config: str = ""
    find: str = ""
    replace: str = ""
    add: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class TargetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A target of an experiment: a recipe or a command, and its changes.

    It may replace a server of the original that is unobtainable.
    """

    name: str
    recipe: str = ""
    command: str = ""
    change: tuple[ConfigChange, ...] = ()
    upstream: Transport = Transport.TCP
    substitutes: str = ""


class FactorLevel(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one level of a factor; without a name it has the factor's."""

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
        body_size: Bytes of the request body; 0: none.
        websocket: Messages on WebSockets are sent in place of requests, of body_size or 32 bytes.
        shared_cores: Servers and load generator share all cores: for claims about more workers than
            a small machine has cores for the server alone. Reported as a warning; absolute costs
            are not claimed.
        network: Properties of an emulated network between load and servers, as in `delay 5ms loss
            0.5%`: see `jissoku lab network --help`. If any workload has them, servers are in a
            network namespace of their own, and a workload without is one of no effect.
        settle_s: Seconds at the workload's rate before each window, for targets whose behaviour
            depends on what they have met in the last seconds.
    """

    name: str
    arms: tuple[str, ...] = ()
    path: str = "/"
    method: str = "GET"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    body_size: int = 0
    websocket: bool = False
    connections: int = 64
    pipeline: int = 1
    keepalive: bool = True
    unix: bool = False
    rate: int | None = None
    closed_loop: bool = False
    shared_cores: bool = False
    network: str = ""
    settle_s: float = 0.0


class Microbenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A program that measures something itself, such as a microbenchmark, and prints its values.

    Attributes:
        recipe: Is prepared first, so that the command may use its `{program}` and `{cache}`.
        command: Prints lines of a name and a number above 0, and ends; run on the server's cores.
        rounds: Number of runs; a round corresponds to a block of trials.
    """

    name: str
    command: tuple[str, ...]
    recipe: str = ""
    rounds: int = 9
    seconds: float = 1.0


class BenchmarkOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a benchmark printed, one entry for each round, or why there are none."""

    rounds: tuple[dict[str, float], ...] = ()
    reason: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that is tested by inequalities that must all hold, or why it is not tested.

    `jissoku.inference.claims` has the grammar. Fewer cores for the server do not test it.
    """

    name: str
    text: str
    test: tuple[str, ...] = ()
    not_testable: str = ""
    server_cores_min: int = 1


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the original published, beside the measured quantity, as `rate(nginx@hello)`.

    Rows of one table are shown as ratios to its first row.
    """

    server: str
    value: float
    unit: str
    table: str = ""
    quantity: str = ""
    note: str = ""


class UnobtainableTarget(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    reason: str
    substitute: str = ""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    description: str
    target: tuple[TargetSpec, ...]
    workload: tuple[WorkloadSpec, ...]
    claim: tuple[Claim, ...]
    source: str = ""
    year: int = 0
    factor: tuple[Factor, ...] = ()
    benchmark: tuple[Microbenchmark, ...] = ()
    published: tuple[PublishedFigure, ...] = ()
    unobtainable: tuple[UnobtainableTarget, ...] = ()


class ExperimentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of an experiment's folder, written first: `experiment.json`.

    Each of the workloads, which are run in this order, has its own folder.
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
    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"


class InequalityResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one inequality.

    Attributes:
        value: Left side over right side without its number, with the 95 % interval; None for exact
            counts and without measurements.
        blocks_needed: If undecided: additional blocks that would decide, at this spread.
        published: The same ratio of published values; None if one is missing.
        p_holm: p-value of the t-test against the bound, after Holm over all inequalities.
    """

    text: str
    status: ClaimStatus
    value: summary.Estimate | None = None
    bound: float | None = None
    measured: str = ""
    remarks: tuple[str, ...] = ()
    blocks_needed: int | None = None
    relation: str = ""
    published: float | None = None
    p_holm: float | None = None
    cross_checks: tuple[summary.CrossCheck, ...] = ()


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    claim: Claim
    status: ClaimStatus
    inequalities: tuple[InequalityResult, ...] = ()
    remarks: tuple[str, ...] = ()


class PublishedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A published value and the measured one, both as ratios to their table's first row."""

    published: PublishedFigure
    ratio: float | None
    ours: summary.Estimate | None
    our_ratio: summary.Estimate | None
    remark: str = ""


class ExperimentResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an experiment; its report fills in the headline."""

    header: ExperimentHeader
    claims: tuple[ClaimResult, ...]
    published: tuple[PublishedComparison, ...]
    summaries: dict[str, summary.Summary]
    is_finished: bool
    headline: str = ""
    schema: str = RESULT_SCHEMA
