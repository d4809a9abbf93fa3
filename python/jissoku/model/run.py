"""The header of a run: targets, machine and method, written before the first trial."""

from enum import StrEnum

import msgspec

from jissoku.model.arm import Arm, UnavailableTarget
from jissoku.model.load import Load
from jissoku.model.workload import Workload

SCHEMA = "jissoku.run/2"


class Mode(StrEnum):
    """The duration of a run, and its precision."""

    QUICK = "quick"
    STANDARD = "standard"


class Method(StrEnum):
    """How the arms of a run are compared."""

    TIME_SLICED = "time-sliced"
    PAIRED = "paired"
    SINGLE = "single-target"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of the machine that affect results, without anything that identifies it."""

    cpu_model: str
    cores: int
    smt: bool | None
    memory_bytes: int
    kernel: str
    hypervisor: str
    governor: str
    turbo: str
    clocksource: str
    python: str


class CoreAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """Cores of each role; `shared` when server and load generator have the same."""

    server: tuple[int, ...]
    generator: tuple[int, ...]
    shared: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a run, written first: `run.json`.

    Attributes:
        jissoku: Version, with the build's profile and revision.
        seed: Determines every order, role and port; the same seed gives the same schedule.
        reference: The arm with which all others are in paired trials.
        baseline: The arm that the others are compared with; the first one named.
        floor: The arm whose cost is the unit of relative cost; empty if unavailable.
        aa_control: A second copy of the baseline: their difference is noise. Empty in quick mode.
        arms: All arms, floor and A/A control among them.
        workload: As requested; `rate_rps` None means that the lab chooses the rates.
        method: The pairing method; `method_reason` gives the reason (docs/METHODOLOGY.md, "Which
            method").
        loads: The loads at which arms are compared, lightest first; empty in older records.
        slice_ns: Nominal length of a slice in time-sliced trials.
        check_slice_ns: The other length, used for cross-checks in some blocks.
        objective: The objective of capacity searches; empty without any.
        noise_floor: As measured by `jissoku self-test` on this machine: the ratio of equal
            arms differs from 1 by at most this in 95 of 100 runs; None if it has not been run.
        minimum_effect: Smallest ratio of costs, minus one, that matters. Depends on the method and
            the mode (docs/METHODOLOGY.md, "From trials to verdicts").
        verb: The command that measured, such as `compare`; empty in older records.
        boot: 12 hexadecimal digits of a hash of the kernel's boot identifier, the same in all runs
            of one boot. Empty if the kernel has none, and in older records.
        machine_label: The user's name for the machine; empty unless given.
        labels: The user's labels of the run, such as its commit or branch.
        blocks_planned: At most this many blocks; None in older records.
        experiment: The experiment that the run is a workload of; empty for a single run.
        horizon: Verdicts are looked for after every block, and the error is spent over this many;
            0: once, after the last block, as in older records.
    """

    jissoku: str
    started_utc: str
    seed: int
    mode: Mode
    reference: str
    baseline: str
    floor: str
    arms: tuple[Arm, ...]
    workload: Workload
    machine: Machine
    cores: CoreAssignment
    unavailable: tuple[UnavailableTarget, ...] = ()
    minimum_effect: float = 0.005
    aa_control: str = ""
    method: Method = Method.PAIRED
    method_reason: str = ""
    loads: tuple[Load, ...] = ()
    slice_ns: int | None = None
    check_slice_ns: int | None = None
    objective: str = ""
    noise_floor: float | None = None
    verb: str = ""
    boot: str = ""
    machine_label: str = ""
    labels: dict[str, str] = {}
    blocks_planned: int | None = None
    experiment: str = ""
    horizon: int = 0
    schema: str = SCHEMA
