"""The configuration of a comparison, from its request, and the header of its record."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jissoku import inference, model
from jissoku.design import schedule
from jissoku.design.sampling_plan import SAMPLING_PLANS, SamplingPlan, anytime, deciding
from jissoku.errors import InputError
from jissoku.inference.bounds import needs_closed_loop
from jissoku.measure.host import LocalHost, ServerHost
from jissoku.measure.machine import boot, machine, machine_label, now_utc
from jissoku.measure.profile import TARGETS_MAX, ProfileConfig
from jissoku.measure.selection import (
    FLOOR,
    PreparedSelection,
    check_server_host,
    folder_for,
    recorded,
    seed,
    workload,
)
from jissoku.measure.trial import LatencyObjective, PreparedArm
from jissoku.model.updated import updated
from jissoku.records import files
from jissoku.request import AnyRequest, ComparisonRequest
from jissoku.targets.placeholders import default_cache

# Window of each target's profile: some thousand samples at a tenth of a core.
PROFILE_NS = 20_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What every run is configured by that is recorded: the baseline's arm first.

    `aa_control` is the name of a second copy of the baseline, `experiment` that whose workload
    the run is; `bounds` are those that it has to decide. `host` is where the targets run.
    """

    arms_prepared: tuple[PreparedArm, ...]
    unavailable: tuple[model.UnavailableTarget, ...] = ()
    workload: model.Workload
    mode: model.Mode
    seed: int
    cores: model.CoreAssignment
    folder: Path
    version: str
    aa_control: str = ""
    verb: str = "compare"
    labels: Mapping[str, str] = field(default_factory=dict)
    experiment: str = ""
    bounds: tuple[str, ...] = ()
    request: AnyRequest | None = None
    host: ServerHost = field(default_factory=LocalHost)

    @property
    def names(self) -> tuple[str, ...]:
        names = (arm.arm.name for arm in self.arms_prepared)
        return tuple(name for name in names if name != self.aa_control)

    @property
    def arms(self) -> tuple[model.Arm, ...]:
        return tuple(arm.arm for arm in self.arms_prepared)

    def header(self, blocks: int, floor: str = "") -> model.Run:
        run = model.Run(
            jissoku=self.version,
            started_utc=now_utc(),
            seed=self.seed,
            mode=self.mode,
            reference=self.names[0],
            baseline=self.names[0],
            floor=floor,
            arms=self.arms,
            workload=self.workload,
            machine=machine(),
            cores=self.cores,
            unavailable=self.unavailable,
            aa_control=self.aa_control,
            verb=self.verb,
            boot=boot(),
            machine_label=machine_label(),
            labels=dict(self.labels),
            blocks_planned=blocks,
            experiment=self.experiment,
            request=self.request and recorded(self.request),
        )
        return self.host.describe(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareConfig(RunConfig):
    """Configuration of a comparison.

    Attributes:
        floor: Name of the floor's arm; empty without it.
        plan: The sampling plan of the mode, with the user's changes.
        closed_loop: Requests are not evenly spaced, but sent as fast as they are answered.
        joint_trials: Whether arms share trials; else every arm is measured alone, for questions
            that are not about cost.
        method: The user's choice of method; None: the rule decides.
        loads: The user's choice of loads; empty: the workload's rate, or those of the mode.
        one_load: Only the heaviest load that every arm reaches, if no load was given.
        objective: The objective of a capacity search; None: no capacity is measured.
        noise_floors: Noise floors of this machine by method, from `jissoku self-test`.
        aim: The direction of the effects that a tuning looks for. A pair is measured until
            it is decided, or until an effect that matters in this direction is excluded.
        metric: What decides when a pair is measured enough: CPU time per request, or of a closed
            loop the time per answer.
    """

    plan: SamplingPlan
    floor: str = ""
    closed_loop: bool = False
    joint_trials: bool = True
    method: model.Method | None = None
    loads: tuple[model.Load, ...] = ()
    one_load: bool = False
    objective: LatencyObjective | None = None
    noise_floors: Mapping[model.Method, float] = field(default_factory=dict)
    aim: model.Verdict | None = None
    metric: model.Metric = model.Metric.COST

    @property
    def is_closed(self) -> bool:
        """Whether arms are compared in a closed loop: a burst cannot be spaced evenly."""
        return self.closed_loop or self.workload.pipeline > 1

    @property
    def given_loads(self) -> tuple[model.Load, ...] | None:
        """The loads, if they do not depend on a pilot run."""
        if self.loads:
            return self.loads
        if self.workload.rate_rps is not None:
            return (model.Load(rate_rps=self.workload.rate_rps, level=model.LoadLevel.GIVEN),)
        if self.is_closed or not self.joint_trials:
            return (model.FULL_LOAD,)
        return None


def external(config: CompareConfig) -> frozenset[str]:
    """External servers whose process was not found, so that their CPU time is unknown."""
    return frozenset(
        arm.arm.name for arm in config.arms_prepared if not config.host.has_processes(arm.prepared)
    )


def run_header(config: CompareConfig) -> model.Run:
    method, reason = schedule.choose_method(
        config.arms, is_closed=config.is_closed, asked=config.method
    )
    if not config.joint_trials:
        method, reason = model.Method.SINGLE, "the question is not about the cost of a request"
    return updated(
        config.header(config.plan.blocks_max, config.floor),
        method=method,
        method_reason=reason,
        loads=config.given_loads or (),
        slice_ns=config.plan.slice_ns,
        check_slice_ns=config.plan.check_slice_ns,
        minimum_effect=inference.minimum_effect_of(model.EvidenceSource(method), config.mode),
        objective=config.objective.text if config.objective else "",
        noise_floor=config.noise_floors.get(method),
        horizon=config.plan.horizon,
    )


def noise_file() -> Path:
    return default_cache() / files.NOISE_FILE


def noise_floors() -> dict[model.Method, float]:
    return files.known_noise_floors(noise_file(), machine())


def check_request(request: ComparisonRequest) -> None:
    burst = "--closed-loop" if request.closed_loop else "--pipeline" if _is_burst(request) else ""
    early = "--for" if request.time_limit else "--precision" if request.precision else ""
    if early and request.blocks is not None:
        raise InputError(f"{early} and --blocks exclude each other: the number of blocks is fixed")
    if request.precision and request.fail_if:
        raise InputError(
            "--precision and --fail-if exclude each other: a run ends when its bounds are decided"
        )
    if request.rate is not None and burst:
        raise InputError(f"-R and {burst} exclude each other")
    if request.confirm and not request.fail_if:
        raise InputError("--confirm requires --fail-if: it confirms that a bound is exceeded")
    if request.raw and (request.header or request.body or request.method != "GET"):
        raise InputError("--raw is the whole request: leave out -m, -H and --body")
    not_of_websockets = {
        "--raw": request.raw,
        "-m": request.method != "GET",
        "--pipeline": request.pipeline > 1,
        "--no-keepalive": not request.keepalive,
        "--match": request.match != model.Match.BYTES,
    }
    for name, is_given in not_of_websockets.items():
        if request.websocket and is_given:
            raise InputError(f"--websocket and {name} exclude each other")
    check_server_host(request)


def compare_config(
    request: ComparisonRequest,
    field: PreparedSelection,
    *,
    folder: Path | None,
    version: str,
    is_pair: bool,
    host: ServerHost,
) -> CompareConfig:
    """The configuration of a campaign of prepared targets; `folder` None: a new one.

    Two builds of one program are alike (`is_pair`): one load, and an A/A control. `host` is where
    the targets run.
    """
    mode = _mode(request)
    compared = [one.arm.name for one in field.arms if one.arm.name != FLOOR]
    has_control = mode is model.Mode.STANDARD or is_pair
    arms, control = with_control(field.arms) if has_control else (field.arms, "")
    method = (
        model.Method(request.pairing)
        if request.pairing
        else model.Method.PAIRED
        if is_pair
        else None
    )
    config = CompareConfig(
        request=request,
        arms_prepared=arms,
        aa_control=control,
        floor=field.floor,
        unavailable=field.unavailable,
        workload=workload(request),
        mode=mode,
        plan=sampling_plan(request, is_pair=is_pair),
        seed=seed(request.seed),
        cores=host.assign_cores(request.server_cores, request.generator_cores),
        folder=folder or folder_for(*compared),
        version=version,
        noise_floors=noise_floors() if host.is_local else {},
        host=host,
        closed_loop=request.closed_loop,
        method=method,
        one_load=is_pair,
        labels=dict(request.label),
        bounds=request.fail_if,
        objective=None if _is_burst(request) else LatencyObjective.parse(request.objective),
    )
    if external(config):  # Only trials of each target alone say something of such a server.
        return updated(config, plan=config.plan.with_one_look)
    return config


def with_control(arms: Sequence[PreparedArm]) -> tuple[tuple[PreparedArm, ...], str]:
    first = arms[0]
    name = f"{first.arm.name} again"
    return (*arms, PreparedArm(first.prepared.arm(name), first.prepared)), name


def profiled_pair(config: CompareConfig) -> ProfileConfig:
    left_out = {FLOOR, config.aa_control}
    arms = tuple(arm for arm in config.arms_prepared if arm.arm.name not in left_out)
    if len(arms) != TARGETS_MAX:
        raise InputError("--profile explains the difference of two targets: name two")
    return ProfileConfig(
        arms=arms,
        workload=config.workload,
        cores=config.cores,
        window_ns=PROFILE_NS,
        seed=config.seed,
        folder=config.folder,
        version=config.version,
        host=config.host,
    )


def sampling_plan(request: ComparisonRequest, *, is_pair: bool) -> SamplingPlan:
    plan, blocks = SAMPLING_PLANS[_mode(request)], request.blocks
    if request.check_blocks is not None:
        checks = request.check_blocks
        plan = updated(plan, fixed_rate_blocks=checks, cross_check_blocks=checks)
    if is_pair and request.fail_if:
        plan = deciding(plan)
    if blocks is None:
        precision = math.log1p(request.precision or 0.0)
        plan = anytime(plan, seconds=request.time_limit or 0.0, precision=precision)
    else:
        solo = min(plan.closed_loop_blocks, blocks)
        plan = updated(plan, blocks=blocks, blocks_max=blocks, closed_loop_blocks=solo)
        plan = plan.with_one_look
    if _is_burst(request) or needs_closed_loop(request.fail_if):
        return updated(plan, closed_loop_blocks=plan.blocks_max)
    return plan


def _is_burst(request: ComparisonRequest) -> bool:
    return request.closed_loop or request.pipeline > 1


def _mode(request: ComparisonRequest) -> model.Mode:
    return model.Mode.QUICK if request.quick else model.Mode.STANDARD
