"""Results across runs: changes relative to unchanged arms, and series of a target's cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from jissoku.model.history import RunRow
from jissoku.model.workload import Load
from jissoku.request import ComparisonRequest


class Control(StrEnum):
    """The change of unchanged arms between two runs (docs/history.md, rule 3)."""

    UNMOVED = "unchanged arms did not move"
    MOVED = "unchanged arms moved, so the runs differ in kind"
    ABSENT = "unchecked, without a second unchanged arm"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A natural logarithm of a ratio of costs with its 95 % interval.

    Attributes:
        p_value: Two-sided p-value of the hypothesis of no change.
    """

    mean: float
    low: float
    high: float
    p_value: float


class Tau(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviation of a log ratio between occasions when nothing changed.

    Attributes:
        pairs: Number of unchanged pairs that it is estimated from; 0 if it is assumed.
        freedom: Degrees of freedom of the estimate: fewer than pairs, because neighbouring pairs
            share an occasion. Infinite if it is assumed.
    """

    value: float
    pairs: int
    freedom: float = math.inf


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The run that would prove a suspicion.

    Attributes:
        request: Measures both programs together.
        arms: Their names in that run: the earlier one's and the later one's.
    """

    request: ComparisonRequest
    arms: tuple[str, str]


class ArmChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of an arm's cost between two runs, relative to unchanged arms.

    Attributes:
        arm: Its name in the later run.
        change: ln(cost in the later run / cost in the earlier one).
        anchors: The unchanged arms.
        control_change: The largest change of an unchanged pair; None without a second arm.
        is_same: Whether the arm itself is unchanged.
        is_suspected: There is a change that a run of both versions has to confirm.
        occasions: Number of occasions on each side.
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
    """Two runs side by side.

    Attributes:
        obstacles: Why they are not comparable, a clause each; empty if they are.
        breaks: Changes other than those of the arms.
        unchanged: Arms that are the same program in both.
        only: Arms that are in only one of them.
        loads: Of each.
        unfinished: Why each is incomplete; empty if it is finished.
        race: Measures the arms of both together.
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
        runs: Keys of the runs.
        error: Standard error of the ratio's mean.
        freedom: Degrees of freedom of that error.
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

    Attributes:
        machine: Key of the class.
        machine_text: Processor, cores and hypervisor.
        checks: By name of a check, how many trials it rejected; most often first.
        noise_floor: As later runs of the day used it: the relative difference of equal servers.
            None if it was unknown.
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

    Attributes:
        run: Key of the run.
        unit: The other arm.
        rate: Requests per second; 0: closed loop.
        level: Of the load.
        mean: Over the blocks of the run, of which there are two or more.
        variance: Of the mean.
        freedom: Degrees of freedom of the variance.
    """

    run: Sequence[str]
    arm: Sequence[str]
    unit: Sequence[str]
    rate: Sequence[int]
    level: Sequence[str]
    mean: Sequence[float]
    variance: Sequence[float]
    freedom: Sequence[float]


SCHEMA = "jissoku.dismissal/1"


class Dismissal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a suspected change needs no confirmation.

    Attributes:
        key: Of the suspicion.
        reason: Empty: the suspicion is open again.
        dismissed_utc: ISO 8601, to the second.
    """

    key: str
    target: str
    reason: str
    dismissed_utc: str
    schema: str = SCHEMA
