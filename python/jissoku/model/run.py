"""The header of a run: what was raced, where and how, before the first trial."""

from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.model.arm import Arm, Missing
from jissoku.model.workload import Workload

SCHEMA = "jissoku.run/1"


class Mode(StrEnum):
    """How much time a run may take, and how sure it will be."""

    QUICK = "quick"
    STANDARD = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine's fingerprint: enough to judge a figure by, nothing that names the machine."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Who runs where; `shared` when server and stopwatch could not be kept apart."""

    server: tuple[int, ...]
    stopwatch: tuple[int, ...]
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The first thing written: `run.json`.

    Attributes:
        jissoku: Version, with the build's profile and revision.
        seed: Decides every order, role and port; the same seed gives the same schedule.
        reference: The arm every other one is in duet with.
        baseline: The arm that verdicts are given against; the first one named.
        floor: The arm whose cost is the multiple's unit; empty when the floor could not be raced.
        twin: An arm that is the baseline once more: what tells the two apart is noise. Empty in
            quick mode.
        arms: All arms, floor and twin among them.
        workload: As asked; `rate_rps` None means that the lab chooses the duets' rate.
        minimum_effect: Smallest ratio minus one that matters, 0.02 or, for duets, 0.01.
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
    cores: Cores
    missing: tuple[Missing, ...] = ()
    minimum_effect: float = 0.01
    twin: str = ""
    schema: str = field(default=SCHEMA)
