"""The index of runs: one row type per table, computed from the records of one run."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from jissoku.model.workload import Load, LoadLevel
from jissoku.request import ComparisonRequest


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run.

    Attributes:
        run: Key: a hash of the header, and the size of the trials. A copied folder has the same.
        machine: Hash of processor, cores, SMT and hypervisor: the class of the machine.
        workload: Hash of the workload without the rate.
        request: The comparison that measures its arms again, as JSON (`asked`).
        condition: How much other programs used the cores: quiet, shared or busy.
        verdicts: How many comparisons of the run are proven differences.
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
        """The comparison that measures its arms again."""
        return msgspec.json.decode(self.request, type=ComparisonRequest)


class ArmRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An arm of a run.

    Attributes:
        program: Hash of the sources if its recipe compiles them, else of the binary, and of the
            command. Equal in two runs: the same arm. Empty if unknown.
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
    """One data point: one block's ratio of two arms' CPU cost at one load.

    Attributes:
        arm: Sorts before `other` and is the numerator.
        rate_rps: None: closed loop.
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
    """A comparison of the run's report."""

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

    Attributes:
        multiple: Cost as a multiple of the run's unit.
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
    """A check that a trial did not pass."""

    run: str
    trial: int
    arms: str
    name: str
    outcome: str


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of one run, by table."""

    runs: tuple[RunRow, ...]
    arms: tuple[ArmRow, ...]
    blocks: tuple[BlockRow, ...]
    verdicts: tuple[VerdictRow, ...]
    standings: tuple[StandingRow, ...]
    checks: tuple[CheckRow, ...]


class PairMean(msgspec.Struct, frozen=True, gc=False):
    """ln(cost of one arm / cost of another) over the blocks of a run.

    Attributes:
        variance: Of the mean.
        blocks: Two or more.
    """

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
        folder: The folder of its records.
        unfinished: Why it is incomplete; empty if it is finished.
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
        """Loads with measurements."""
        return tuple(self.logs or self.means)

    def arm(self, name: str) -> ArmRow | None:
        """The arm of this name."""
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
        """The mean of the same, where the blocks were not asked for."""
        pairs = _at_rate(self.means, load)
        if found := pairs.get((arm, other)):
            return found
        if found := pairs.get((other, arm)):
            return PairMean(-found.mean, found.variance, found.blocks)
        return None


def _at_rate(by_load: Mapping[Load, dict[Pair, Value]], load: Load) -> dict[Pair, Value]:
    found = by_load.get(load)
    if found is None:
        rate = load.rate_rps
        found = next((pairs for one, pairs in by_load.items() if one.rate_rps == rate), {})
    return found


class FolderEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A folder below one with runs, as it was when it was read.

    Attributes:
        mtime_ns: When an entry of it was last added, removed or renamed; -1: read it again.
        folders: Names of the folders in it, separated by `/`.
        run: The run's key; empty if the folder holds none.
        header_ns: Modification time of the run's header.
        header_size: In bytes.
        trials_size: In bytes.
        unfinished: Why the run is incomplete.
        problem: Why the run cannot be read.
    """

    mtime_ns: int
    folders: str = ""
    run: str = ""
    header_ns: int = 0
    header_size: int = 0
    trials_size: int = 0
    unfinished: str = ""
    problem: str = ""


def load_of(rate_rps: int | None, level: str) -> Load:
    """A load as stored in the tables."""
    return Load(rate_rps=rate_rps, level=LoadLevel(level))
