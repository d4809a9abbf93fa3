"""The header of a run: targets, machine and method, written before the first trial."""

from enum import StrEnum

import msgspec

from jissoku.model.arm import Arm, UnavailableTarget
from jissoku.model.load import Load
from jissoku.model.workload import Workload

SCHEMA = "jissoku.run/2"


class Mode(StrEnum):
    """How much time a run may take, and how sure it will be."""

    QUICK = "quick"
    STANDARD = "standard"


class Method(StrEnum):
    """How the arms of a run are compared."""

    TIME_SLICED = "time-sliced"
    PAIRED = "paired"
    SINGLE = "single-target"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's fingerprint: enough to judge a value by, nothing that names the machine."""

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
    """The first thing written: `run.json`.

    Attributes:
        jissoku: Version, with the build's profile and revision.
        seed: Decides every order, role and port; the same seed gives the same schedule.
        reference: The arm every other one is in paired trials with.
        baseline: The arm that verdicts are given against; the first one named.
        floor: The arm whose cost is the multiple's unit; empty when the floor is unavailable.
        aa_control: An arm that is the baseline once more: their difference is noise. Empty
            in quick mode.
        arms: All arms, floor and A/A control among them.
        workload: As asked; `rate_rps` None means that the lab chooses the paired trials' rate.
        method: How arms meet, and `method_reason` why so (docs/METHODOLOGY.md, "Which method").
        loads: At which loads arms are compared, lightest first; empty in older records.
        slice_ns: How long a turn of the time-sliced trials is.
        check_slice_ns: The other length, at which some blocks check the first.
        objective: What a capacity must meet; empty where no capacity is measured.
        noise_floor: What `jissoku doctor --prove` found on this machine: a ratio of equal arms lies
            within this of 1 in 95 of 100 runs; None where it has not been run.
        minimum_effect: Smallest ratio minus one that matters, 0.02 or, for paired trials, 0.01.
        verb: The command that measured, such as `compare`; empty in older records.
        boot: 12 hexadecimal digits of a hash of the kernel's boot identifier: runs of one boot
            share it, and it names nothing. Empty where the kernel has none, and in older records.
        machine_label: The user's own name for the machine; empty unless given.
        labels: What the user says of the run, such as its commit or branch.
        blocks_planned: At most this many blocks; None in older records.
        experiment: The experiment that the run is a workload of; empty for a single run.
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
    minimum_effect: float = 0.01
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
    schema: str = SCHEMA
