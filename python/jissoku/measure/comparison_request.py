"""From the request of a comparison to its configuration."""

import math
from pathlib import Path

from jissoku.design.sampling_plan import SAMPLING_PLANS, SamplingPlan, anytime, deciding
from jissoku.errors import InputError
from jissoku.inference.bounds import cost_bounds, needs_closed_loop
from jissoku.measure.capacity import Objective
from jissoku.measure.compare_config import CompareConfig, LoadMode, external, noise_floors
from jissoku.measure.profile import ProfileConfig
from jissoku.measure.reports import TARGETS_MAX
from jissoku.measure.requests import seed, workload
from jissoku.measure.selection import FLOOR, PreparedSelection, folder_for
from jissoku.measure.trial_runner import PreparedArm
from jissoku.model import Method, Mode
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest
from jissoku.system.cores import core_assignment

# Window of each target's profile: some thousand samples at a tenth of a core.
PROFILE_NS = 20_000_000_000


def check_request(request: ComparisonRequest) -> None:
    """Refuses options that exclude each other.

    Raises:
        InputError: Two of them do.
    """
    burst = "--closed-loop" if request.closed_loop else "--pipeline" if _is_burst(request) else ""
    early = "--for" if request.time_limit else "--precision" if request.precision else ""
    fixed = "--blocks" if request.blocks is not None else "--fail-if" if request.fail_if else burst
    if early and fixed:
        raise InputError(f"{early} and {fixed} exclude each other: the number of blocks is fixed")
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
    }
    for name, is_given in not_of_websockets.items():
        if request.websocket and is_given:
            raise InputError(f"--websocket and {name} exclude each other")


def compare_config(
    request: ComparisonRequest,
    field: PreparedSelection,
    *,
    folder: Path | None,
    version: str,
    is_pair: bool,
) -> CompareConfig:
    """The configuration of a campaign.

    Args:
        request: Without contradictions.
        field: The targets, prepared.
        folder: Of its records; None: a new one.
        version: Of jissoku.
        is_pair: Two builds of one program, which are alike: one load, and an A/A control.
    """
    mode = _mode(request)
    compared = [one.arm.name for one in field.arms if one.arm.name != FLOOR]
    arms, aa_control = field.arms, ""
    if mode is Mode.STANDARD or is_pair:
        first = arms[0]
        aa_control = f"{first.arm.name} again"
        arms = (*arms, PreparedArm(first.prepared.arm(aa_control), first.prepared))
    method = Method(request.pairing) if request.pairing else Method.PAIRED if is_pair else None
    config = CompareConfig(
        request=request,
        arms_prepared=arms,
        aa_control=aa_control,
        floor=field.floor,
        unavailable=field.unavailable,
        workload=workload(request),
        mode=mode,
        plan=sampling_plan(request, is_pair=is_pair),
        seed=seed(request.seed),
        cores=core_assignment(request.server_cores, request.generator_cores),
        folder=folder or folder_for(*compared),
        version=version,
        noise_floors=noise_floors(),
        load_mode=LoadMode.CLOSED if request.closed_loop else LoadMode.COMMON,
        method=method,
        one_load=is_pair,
        labels=dict(request.label),
        objective=None if _is_burst(request) else Objective.parse(request.objective),
    )
    if external(config):  # Only trials of each target alone say something of such a server.
        return updated(config, plan=updated(config.plan, horizon=0))
    return config


def profiled_pair(config: CompareConfig) -> ProfileConfig:
    """Profiles of two targets, each alone, at the comparison's rate if it has one.

    Raises:
        InputError: There are not two.
    """
    arms = tuple(
        arm for arm in config.arms_prepared if arm.arm.name not in {FLOOR, config.aa_control}
    )
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
    )


def sampling_plan(request: ComparisonRequest, *, is_pair: bool) -> SamplingPlan:
    """How many blocks of which trials are measured; `is_pair` as of `compare_config`."""
    plan, blocks = SAMPLING_PLANS[_mode(request)], request.blocks
    if request.check_blocks is not None:
        checks = request.check_blocks
        plan = updated(plan, fixed_rate_blocks=checks, cross_check_blocks=checks)
    bounds = cost_bounds(request.fail_if) if is_pair else ()
    plan = deciding(plan, bounds)
    if blocks is not None:
        solo = min(plan.closed_loop_blocks, blocks)
        plan = updated(plan, blocks=blocks, blocks_max=blocks, closed_loop_blocks=solo)
    if _is_burst(request) or needs_closed_loop(request.fail_if):
        return updated(plan, closed_loop_blocks=plan.blocks_max)
    if blocks is None and not request.fail_if:
        return anytime(
            plan,
            _mode(request),
            seconds=request.time_limit or 0.0,
            precision=math.log1p(request.precision or 0.0),
        )
    if bounds and len(bounds) == len(request.fail_if):
        # No bound depends on full load, and its trials would take a fifth of the time.
        return updated(plan, closed_loop_blocks=0, capacity_blocks=0)
    return plan


def _is_burst(request: ComparisonRequest) -> bool:
    """Whether requests are not evenly spaced."""
    return request.closed_loop or request.pipeline > 1


def _mode(request: ComparisonRequest) -> Mode:
    return Mode.QUICK if request.quick else Mode.STANDARD
