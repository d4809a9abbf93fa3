"""The index of runs, one row type per table, and the results across runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import msgspec

from jissoku.model.run import Load, LoadLevel
from jissoku.request import ComparisonRequest


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run.

    Attributes:
        run: Key: a hash of the header, and the size of the trials. A copied folder has the same.
        machine: Hash of processor, cores, SMT and hypervisor: the class of the machine.
        workload: Hash of the workload without the rate.
        request: The comparison that measures its arms again, as JSON (`asked`).
    """

    run: str
    started_utc: str
    verb: str
    mode: str
    method: str
    machine: str
    machine_text: str
    machine_label: str
    boot: str
    kernel: str
    governor: str
    turbo: str
    clocksource: str
    jissoku: str
    workload: str
    workload_text: str
    path: str
    connections: int
    server_cores: int
    generator_cores: int
    shared: bool
    baseline: str
    floor: str
    experiment: str
    labels: str
    blocks_planned: int | None
    blocks: int
    trials: int
    trials_valid: int
    trials_rejected: int
    noise_floor: float | None
    verdicts: int
    headline: str
    request: str = '{"verb":"compare"}'
    condition: str = "quiet"

    @property
    def asked(self) -> ComparisonRequest:
        return msgspec.json.decode(self.request, type=ComparisonRequest)


class ArmRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An arm of a run; its program is a key that is equal in two runs of the same arm.

    It is a hash of the sources if its recipe compiles them, else of the binary, and of the command;
    empty if unknown.
    """

    run: str
    arm: str
    target: str
    version: str
    origin: str
    program: str
    binary_sha256: str
    source_sha256: str
    is_floor: bool
    is_control: bool


class BlockRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One block's ratio of two arms' CPU cost at one load; None: closed loop.

    `arm` sorts before `other`, and is the numerator.
    """

    run: str
    arm: str
    other: str
    rate_rps: int | None
    level: str
    source: str
    block: int
    ln_ratio: float


class VerdictRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    run: str
    arm: str
    against: str
    metric: str
    rate_rps: int | None
    level: str
    verdict: str
    proven: bool
    ratio: float | None
    low: float | None
    high: float | None
    p_holm: float | None
    blocks_needed: int | None
    sentence: str


class StandingRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An arm's values at one load; closed-loop rate, capacity and memory do not depend on it.

    Multiples are of the cost of the run's unit.
    """

    run: str
    arm: str
    rate_rps: int | None
    level: str
    status: str
    rank: int | None
    cost_ns: float | None
    multiple: float | None
    multiple_low: float | None
    multiple_high: float | None
    p50_ns: float | None
    p99_ns: float | None
    closed_loop_rps: float | None
    capacity_rps: float | None
    rss_bytes: int | None


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    run: str
    trial: int
    arms: str
    name: str
    outcome: str


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    runs: tuple[RunRow, ...]
    arms: tuple[ArmRow, ...]
    blocks: tuple[BlockRow, ...]
    verdicts: tuple[VerdictRow, ...]
    standings: tuple[StandingRow, ...]
    checks: tuple[CheckRow, ...]


class PairMean(msgspec.Struct, frozen=True, gc=False):
    """ln(cost of one arm / cost of another) over the two or more blocks of a run."""

    mean: float
    variance: float
    blocks: int


Pair = tuple[str, str]
Value = TypeVar("Value")


class IndexedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run read from the index, with as much of its measurements as was asked for.

    Attributes:
        arms: In the order of the run's header; their `run` is empty, since equal arms of several
            runs are one object.
        logs: ln(cost of the first arm / cost of the second) by block; by load and pair.
        means: Of the same, where the blocks were not asked for.
    """

    row: RunRow
    arms: tuple[ArmRow, ...]
    logs: dict[Load, dict[Pair, dict[int, float]]] = {}
    means: dict[Load, dict[Pair, PairMean]] = {}
    folder: str = ""
    unfinished: str = ""

    @property
    def loads(self) -> tuple[Load, ...]:
        return tuple(self.logs or self.means)

    def arm(self, name: str) -> ArmRow | None:
        return next((one for one in self.arms if one.arm == name), None)

    def ratios(self, load: Load, arm: str, other: str) -> dict[int, float]:
        """ln(cost of `arm` / cost of `other`), by block; empty without common trials.

        Loads are equal if their rates are: a rate has another name in a run of other loads.
        """
        pairs = _at_rate(self.logs, load)
        if (arm, other) in pairs:
            return pairs[arm, other]
        return {block: -log for block, log in pairs.get((other, arm), {}).items()}

    def mean(self, load: Load, arm: str, other: str) -> PairMean | None:
        pairs = _at_rate(self.means, load)
        if found := pairs.get((arm, other)):
            return found
        if found := pairs.get((other, arm)):
            return PairMean(-found.mean, found.variance, found.blocks)
        return None


def _at_rate(by_load: Mapping[Load, dict[Pair, Value]], load: Load) -> dict[Pair, Value]:
    if load in by_load:
        return by_load[load]
    rate = load.rate_rps
    return next((pairs for one, pairs in by_load.items() if one.rate_rps == rate), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRun:
    """A run on a board.

    Attributes:
        targets: Those of its kind that are shown by this run, and by no other one.
        again: Other runs that measured two of its targets together, newest first.
    """

    run: IndexedRun
    targets: tuple[str, ...]
    again: tuple[IndexedRun, ...]


class FolderEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A folder below one with runs, as it was when it was read.

    Attributes:
        mtime_ns: When an entry of it was last added, removed or renamed; -1: read it again.
        folders: Names of the folders in it, separated by `/`.
        run: The run's key; empty if the folder holds none.
        document: The file of an explanation, a tuning or profiles in it; empty without.
    """

    mtime_ns: int
    folders: str = ""
    run: str = ""
    header_ns: int = 0
    header_size: int = 0
    trials_size: int = 0
    unfinished: str = ""
    problem: str = ""
    document: str = ""


def load_of(rate_rps: int | None, level: str) -> Load:
    return Load(rate_rps=rate_rps, level=LoadLevel(level))


class Control(StrEnum):
    UNMOVED = "unchanged arms did not move"
    MOVED = "unchanged arms moved, so the runs differ in kind"
    ABSENT = "unchecked, without a second unchanged arm"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A natural logarithm of a ratio of costs with its 95 % interval.

    The p-value is two-sided, of the hypothesis of no change.
    """

    mean: float
    low: float
    high: float
    p_value: float


class Tau(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviation of a log ratio between occasions when nothing changed.

    It is estimated from unchanged pairs, or assumed if there are none, with infinite freedom. Else
    that is less than pairs, because neighbouring pairs share an occasion.
    """

    value: float
    pairs: int
    freedom: float = math.inf


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The run that would prove a suspicion, and the arms' names in it: the earlier one's first."""

    request: ComparisonRequest
    arms: tuple[str, str]


class ArmChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of an arm's cost between two runs, relative to unchanged arms.

    Attributes:
        change: ln(cost in the later run / cost in the earlier one).
        control_change: The largest change of an unchanged pair; None without a second arm.
        is_suspected: There is a change that a run of both versions has to confirm.
        confirmation: None if the two programs cannot be run together: the program is the same, or
            its versions have the same name.
    """

    arm: str
    load: Load
    versions: tuple[str, str]
    change: Change
    anchors: tuple[str, ...]
    control: Control
    control_change: Change | None
    is_same: bool
    is_suspected: bool
    occasions: tuple[int, int] = (1, 1)
    confirmation: Confirmation | None = None


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs side by side, or the obstacles that make them incomparable.

    Breaks are changes other than those of the arms; `race` measures the arms of both together.
    """

    runs: tuple[RunRow, RunRow]
    folders: tuple[str, str]
    obstacles: tuple[str, ...]
    breaks: tuple[str, ...]
    unchanged: tuple[str, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    changes: tuple[ArmChange, ...]
    tau: Tau
    race: ComparisonRequest
    loads: tuple[tuple[Load, ...], tuple[Load, ...]]
    unfinished: tuple[str, str]


class PooledRatio(msgspec.Struct, frozen=True, kw_only=True):
    """A log ratio over several occasions.

    Attributes:
        low, high: 95 % interval of the mean over occasions.
        next_low, next_high: 95 % prediction interval of another occasion's ratio.
        tau: Standard deviation between the occasions.
        is_confirmed: Every single occasion showed the same direction (rule 6).
    """

    mean: float
    low: float
    high: float
    next_low: float
    next_high: float
    tau: float
    occasions: int
    is_confirmed: bool = False


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A target's cost as a multiple of the anchor's on one occasion.

    Attributes:
        error: Standard error of the ratio's mean, with its degrees of freedom.
        breaks: Changes other than those of the arms since the previous point; points on both sides
            are never joined.
        since: The change since the previous point: tested if the target's program or its
            surroundings changed, else found by a search.
    """

    started_utc: str
    version: str
    program: str
    runs: tuple[str, ...]
    ratio: Change
    error: float
    freedom: float
    breaks: tuple[str, ...] = ()
    since: ArmChange | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One target against one anchor at one load, on one class of machines, over time.

    Attributes:
        anchor: The arm that is the unit, the same program throughout.
        question: Equal of two series whose values may stand in one table: workload, method, cores,
            class of machines and program of the anchor are the same.
        workload: Hash of the workload, since two may have one text.
        pooled: Over occasions of the newest version with unchanged surroundings.
        race: Measures the target and its anchor again.
        searches: How many searches for steps found none.
    """

    target: str
    arm: str
    anchor: str
    load: Load
    workload_text: str
    machine: str
    machine_text: str
    points: tuple[SeriesPoint, ...]
    pooled: PooledRatio | None
    tau: Tau
    race: ComparisonRequest
    anchor_version: str
    method: str
    question: str
    workload: str
    searches: int = 0


class MachineRatio(msgspec.Struct, frozen=True, kw_only=True):
    """A target against an anchor on several classes of machines: a row each, never one value."""

    target: str
    anchor: str
    load: Load
    workload_text: str
    rows: tuple[tuple[str, Change], ...]
    next_machine: PooledRatio | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDay:
    """The runs of one day (UTC) on one class of machines.

    Checks are the numbers of trials that each rejected, most often first. The noise floor is that
    which later runs of the day used; None if it was unknown.
    """

    machine: str
    machine_text: str
    day: str
    runs: int
    trials: int
    rejected: int
    checks: Mapping[str, int]
    noise_floor: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioColumns:
    """ln(cost of an arm / cost of another), a row for each run, pair and load.

    Means and their variances are over the two or more blocks of a run; a rate of 0: closed loop.
    """

    run: Sequence[str]
    arm: Sequence[str]
    unit: Sequence[str]
    rate: Sequence[int]
    level: Sequence[str]
    mean: Sequence[float]
    variance: Sequence[float]
    freedom: Sequence[float]


DISMISSAL_SCHEMA = "jissoku.dismissal/1"


class Dismissal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a suspected change needs no confirmation; without a reason it is open again."""

    key: str
    target: str
    reason: str
    dismissed_utc: str
    schema: str = DISMISSAL_SCHEMA
