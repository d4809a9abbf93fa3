"""The configuration of a comparison, and the header of its record."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from jissoku import inference
from jissoku.design import schedule
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.measure.capacity import Objective
from jissoku.measure.machine import boot, machine, machine_label
from jissoku.measure.requests import recorded
from jissoku.measure.trial_runner import PreparedArm
from jissoku.model import (
    FULL_LOAD,
    Arm,
    CoreAssignment,
    EvidenceSource,
    Load,
    LoadLevel,
    Method,
    Mode,
    Run,
    UnavailableTarget,
    Workload,
)
from jissoku.records import noise_floor
from jissoku.request import AnyRequest
from jissoku.system.address import listener_pid
from jissoku.targets.placeholders import default_cache


class LoadMode(StrEnum):
    """The rate of requests during a comparison."""

    COMMON = "at fixed rates"
    CLOSED = "as fast as they are answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareConfig:
    """Configuration of a run.

    Attributes:
        arms_prepared: The baseline first; with the floor unless it is unavailable.
        floor: Name of the floor's arm, or None.
        workload: Its rate is None when arms are compared on the grid of loads.
        aa_control: Name of a second copy of the baseline: the A/A control.
        load_mode: Whether requests are evenly spaced (open loop), or sent in a closed loop.
        plan: The sampling plan of the mode, with the user's changes.
        paired_trials: False: every arm is always measured alone, for questions that are not about
            cost.
        method: The user's choice of method; None: the rule decides.
        loads: The user's choice of loads; empty: those of the mode.
        one_load: Only the heaviest load that every arm reaches, if no load was given.
        objective: The objective of a capacity search; None: no capacity is measured.
        noise_floors: Of this machine, by method, if measured by `jissoku self-test`.
        verb: The command.
        request: What was asked; None: by a command that does not record it.
        labels: The user's labels of the run.
        experiment: The experiment that the run is a workload of.
    """

    arms_prepared: tuple[PreparedArm, ...]
    floor: str | None
    unavailable: tuple[UnavailableTarget, ...]
    workload: Workload
    mode: Mode
    plan: SamplingPlan
    seed: int
    cores: CoreAssignment
    folder: Path
    version: str
    load_mode: LoadMode = LoadMode.COMMON
    aa_control: str = ""
    paired_trials: bool = True
    method: Method | None = None
    loads: tuple[Load, ...] = ()
    one_load: bool = False
    objective: Objective | None = None
    noise_floors: Mapping[Method, float] = field(default_factory=dict)
    verb: str = "compare"
    labels: Mapping[str, str] = field(default_factory=dict)
    experiment: str = ""
    request: AnyRequest | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arms, in order, without the A/A control."""
        names = (arm.arm.name for arm in self.arms_prepared)
        return tuple(name for name in names if name != self.aa_control)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms, as written into the header."""
        return tuple(arm.arm for arm in self.arms_prepared)

    @property
    def is_closed(self) -> bool:
        """Whether arms are compared in a closed loop: a burst cannot be spaced evenly."""
        return self.load_mode is LoadMode.CLOSED or self.workload.pipeline > 1

    @property
    def given_loads(self) -> tuple[Load, ...] | None:
        """The loads, if they do not depend on a pilot run."""
        if self.loads:
            return self.loads
        if self.workload.rate_rps is not None:
            return (Load(rate_rps=self.workload.rate_rps, level=LoadLevel.GIVEN),)
        if self.is_closed or not self.paired_trials:
            return (FULL_LOAD,)
        return None


def external(config: CompareConfig) -> frozenset[str]:
    """External servers whose process was not found, so that their CPU time is unknown."""
    return frozenset(
        arm.arm.name
        for arm in config.arms_prepared
        if arm.prepared.address is not None and listener_pid(arm.prepared.address) is None
    )


def run_header(config: CompareConfig) -> Run:
    """The header of its record; the loads may be known only after the pilot."""
    method, reason = schedule.choose(config.arms, is_closed=config.is_closed, asked=config.method)
    if not config.paired_trials:
        method, reason = Method.SINGLE, "the question is not about the cost of a request"
    baseline = config.names[0]
    return Run(
        jissoku=config.version,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        seed=config.seed,
        mode=config.mode,
        reference=baseline,
        baseline=baseline,
        floor=config.floor or "",
        arms=config.arms,
        workload=config.workload,
        machine=machine(),
        cores=config.cores,
        unavailable=config.unavailable,
        aa_control=config.aa_control,
        method=method,
        method_reason=reason,
        loads=config.given_loads or (),
        slice_ns=config.plan.slice_ns,
        check_slice_ns=config.plan.check_slice_ns,
        minimum_effect=inference.minimum_effect_of(EvidenceSource(method), config.mode),
        objective=config.objective.text if config.objective else "",
        noise_floor=config.noise_floors.get(method),
        verb=config.verb,
        boot=boot(),
        machine_label=machine_label(),
        labels=dict(config.labels),
        blocks_planned=config.plan.blocks_max,
        experiment=config.experiment,
        horizon=config.plan.horizon,
        request=config.request and recorded(config.request),
    )


def noise_file() -> Path:
    """The user's file of noise floors."""
    return default_cache() / noise_floor.FILE_NAME


def noise_floors() -> dict[Method, float]:
    """The noise floors of this machine, by method; empty before `jissoku self-test`."""
    return noise_floor.known(noise_file(), machine())
