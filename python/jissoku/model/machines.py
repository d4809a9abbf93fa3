"""The results of one comparison on several machines: each machine's ratio, and what holds for all.

Machines have numbers, in the order in which they were asked, and no names.
"""

from enum import StrEnum

import msgspec

from jissoku.model.run import LoadLevel, Machine, NetworkPath
from jissoku.model.summary import Comparison, Estimate
from jissoku.model.trial import Condition
from jissoku.request import ComparisonRequest

SCHEMA = "jissoku.machines/1"


RUN_SCHEMA, OUTCOME_SCHEMA = "jissoku.machines-run/1", "jissoku.machine-outcome/1"


class MachinesRun(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a comparison on several machines: `machines.json`.

    Attributes:
        machines: How many are asked. The seed of each is made from `seed` and its number.
        request: What was asked, without hosts.
    """

    jissoku: str
    started_utc: str
    seed: int
    machines: int
    request: ComparisonRequest
    schema: str = RUN_SCHEMA


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt of a machine has ended: a line of `outcomes.jsonl`.

    `reason` is why it did not measure to its end; empty if it did.
    """

    machine: int
    attempt: int
    reason: str = ""
    schema: str = OUTCOME_SCHEMA


class MachinesVerdict(StrEnum):
    """What holds for a ratio on several machines."""

    LOWER_ON_ALL = "lower on all machines"
    LOWER_ON_AVERAGE = "lower on average"
    EQUAL = "practically equal on average"
    HIGHER_ON_AVERAGE = "higher on average"
    HIGHER_ON_ALL = "higher on all machines"
    DEPENDS = "depends on the machine"
    INCONCLUSIVE = "inconclusive"
    OF_ONE = "of one machine"
    NOT_POOLED = "not pooled"
    INCOMPLETE = "incomplete"


class MachineRatio(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio of one pair at one load on one machine, as its own verdict uses it.

    Attributes:
        mean: Natural logarithm of the ratio: y of a meta-analysis.
        error: Standard error of `mean`, s of a meta-analysis, with `freedom` degrees of freedom.
        blocks: Blocks behind it: n of a meta-analysis.
        own: The machine's own comparison.
    """

    machine: int
    mean: float
    error: float
    freedom: float
    blocks: int
    own: Comparison


class MachineOut(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was asked, and whose values do not count."""

    machine: int
    reason: str


class LeaveOneOut(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio without one of the machines."""

    machine: int
    ratio: Estimate


class MachinesComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One pair by CPU time per request, at one level of load, on several machines.

    Attributes:
        ratio: The mean over machines; `blocks` are those of all machines, `sd_log` is tau. None
            from fewer than three machines, which are not pooled.
        next_machine: A further machine like these: a prediction interval. None from fewer than
            five machines, rough from fewer than ten.
        tau: Standard deviation of the logarithms between machines, beyond the errors.
        p_differ: P-value of all machines having the same ratio (Cochran's Q).
        i_squared: The part of the variance that is between machines.
        p_value: Of the mean ratio being 1; `p_holm` after Holm over all comparisons.
        p_equal: Of a mean ratio beyond the minimum effect; `p_equal_holm` after Holm.
        proven_lower, proven_higher: Machines on which a difference is proven, after Holm over the
            machines.
        machines_needed: If undecided: the number of machines that would decide, if they varied as
            these do; None if more than 1,000 are needed.
    """

    arm: str
    against: str
    level: LoadLevel
    verdict: MachinesVerdict
    ratios: tuple[MachineRatio, ...]
    out: tuple[MachineOut, ...] = ()
    minimum_effect: float = 0.0
    ratio: Estimate | None = None
    next_machine: Estimate | None = None
    tau: float | None = None
    p_differ: float | None = None
    i_squared: float | None = None
    p_value: float | None = None
    p_holm: float | None = None
    p_equal: float | None = None
    p_equal_holm: float | None = None
    proven_lower: tuple[int, ...] = ()
    proven_higher: tuple[int, ...] = ()
    machines_needed: int | None = None
    leave_one_out: tuple[LeaveOneOut, ...] = ()
    remarks: tuple[str, ...] = ()
    sentence: str = ""


class MeasuredMachine(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine has measured.

    Attributes:
        path: What is between its load generator and its targets.
        rejected: How many trials each check has rejected.
        unfinished: Why its run is not finished, as the end of a sentence; empty if it is.
        too_few: Pairs with fewer blocks than a verdict needs, or without any, and why.
    """

    number: int
    machine: Machine
    baseline: str
    cores: int
    path: NetworkPath
    condition: Condition
    other_programs: float
    blocks: int
    trials_total: int
    trials_valid: int
    rejected: dict[str, int]
    headline: str
    main_level: LoadLevel | None
    ratios: tuple[MachineRatio, ...]
    too_few: tuple[Comparison, ...] = ()
    unfinished: str = ""


class MachinesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison on several machines.

    Attributes:
        main_level: The level by which reports begin; None if nothing was measured.
        out: Machines without any value.
        comparisons: Every pair at every level, those against the baseline first.
    """

    run: MachinesRun
    baseline: str
    headline: str
    main_level: LoadLevel | None
    machines: tuple[MeasuredMachine, ...]
    out: tuple[MachineOut, ...]
    comparisons: tuple[MachinesComparison, ...]
    schema: str = SCHEMA
