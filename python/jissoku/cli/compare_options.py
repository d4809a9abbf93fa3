"""The options of `jissoku compare` as values: targets, workload, and the whole configuration."""

import math
from dataclasses import dataclass
from pathlib import Path

from jissoku.cli.messages import version_line
from jissoku.design.sampling_plan import SAMPLING_PLANS, SamplingPlan, anytime, deciding
from jissoku.errors import InputError
from jissoku.model import ConnectionMode, Method, Mode, Transport, Workload
from jissoku.model.updated import updated
from jissoku.observe.capacity import Objective
from jissoku.pipeline import CompareConfig, LoadMode, PreparedArm
from jissoku.pipeline.compare_config import external, noise_floors
from jissoku.pipeline.profile import ProfileConfig
from jissoku.pipeline.reports import TARGETS_MAX
from jissoku.pipeline.selection import FLOOR, PreparedSelection, Selection, folder_for
from jissoku.stats.bounds import cost_bounds, needs_closed_loop
from jissoku.system.cores import core_assignment
from jissoku.targets.contract import read_raw_requests

# Window of each target's profile: some thousand samples at a tenth of a core.
PROFILE_NS = 20_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Values of the command line; fields are named as the options."""

    arms: tuple[str, ...]
    quick: bool
    group: str
    cmd: tuple[str, ...]
    url: tuple[str, ...]
    recipes: tuple[Path, ...]
    path: str
    method: str
    header: tuple[tuple[str, str], ...]
    body: str | None
    raw: tuple[Path, ...]
    websocket: bool
    connections: int
    rate: int | None
    closed_loop: bool
    method_name: Method | None
    objective: Objective
    pipeline: int
    keepalive: bool
    unix: bool
    upstream: str
    blocks: int | None
    until: str
    time_limit: float | None
    precision: float | None
    check_blocks: int | None
    seed: int
    out: Path | None
    server_cores: str | None
    generator_cores: str | None
    label: tuple[tuple[str, str], ...]
    baseline: str | None
    build: str
    fail_if: tuple[str, ...]
    confirm: bool
    undecided: str
    comment: Path | None
    step_summary: Path | None
    export_as: tuple[tuple[str, Path], ...]
    profile: bool
    verbose: bool
    as_json: bool
    quiet: bool


def selection(options: CompareOptions, *, floor: bool) -> Selection:
    """The targets."""
    return Selection(
        named=options.arms,
        group=options.group,
        commands=options.cmd,
        urls=options.url,
        recipes=options.recipes,
        path=options.path,
        unix=options.unix,
        upstream=Transport(options.upstream),
        # The floor parses nothing, so it completes no handshake.
        floor=floor and not options.websocket,
    )


def workload(options: CompareOptions) -> Workload:
    """The requests.

    Raises:
        InputError: Options contradict each other, or a file cannot be read.
    """
    if options.rate is not None and (options.closed_loop or options.pipeline > 1):
        bursts = "--closed-loop" if options.closed_loop else "--pipeline"
        raise InputError(f"-R and {bursts} exclude each other")
    if options.raw and (options.header or options.body or options.method != "GET"):
        raise InputError("--raw is the whole request: leave out -m, -H and --body")
    if options.websocket:
        _check_websocket(options)
    return Workload(
        path=options.path,
        method=options.method,
        headers=options.header,
        body=_body(options.body),
        websocket=options.websocket,
        raw_requests=read_raw_requests(options.raw, keepalive=options.keepalive),
        connections=options.connections,
        pipeline=options.pipeline,
        connection_mode=ConnectionMode.KEEP_ALIVE if options.keepalive else ConnectionMode.CLOSE,
        rate_rps=options.rate,
        transport=Transport.UNIX if options.unix else Transport.TCP,
    )


def compare_config(
    options: CompareOptions, field: PreparedSelection, *, is_pair: bool
) -> CompareConfig:
    """The configuration of a campaign.

    Args:
        options: As they were given.
        field: The targets, prepared.
        is_pair: Two builds of one program, which are alike: one load, and an A/A control.
    """
    names = [c.arm.name for c in field.arms]
    mode = _mode(options)
    compared = [name for name in names if name != FLOOR]
    arms, aa_control = field.arms, ""
    if mode is Mode.STANDARD or is_pair:
        first = arms[0]
        aa_control = f"{first.arm.name} again"
        arms = (*arms, PreparedArm(first.prepared.arm(aa_control), first.prepared))
    config = CompareConfig(
        arms_prepared=arms,
        aa_control=aa_control,
        floor=field.floor,
        unavailable=field.unavailable,
        workload=workload(options),
        mode=mode,
        plan=sampling_plan(options, is_pair=is_pair),
        seed=options.seed,
        cores=core_assignment(options.server_cores, options.generator_cores),
        folder=options.out or folder_for(*compared),
        version=version_line(),
        noise_floors=noise_floors(),
        load_mode=LoadMode.CLOSED if options.closed_loop else LoadMode.COMMON,
        method=options.method_name or (Method.PAIRED if is_pair else None),
        one_load=is_pair,
        labels=dict(options.label),
        objective=None if options.closed_loop or options.pipeline > 1 else options.objective,
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


def sampling_plan(options: CompareOptions, *, is_pair: bool) -> SamplingPlan:
    """How many blocks of which trials are measured; `is_pair` as of `compare_config`."""
    plan, blocks = SAMPLING_PLANS[_mode(options)], options.blocks
    if options.check_blocks is not None:
        checks = options.check_blocks
        plan = updated(plan, fixed_rate_blocks=checks, cross_check_blocks=checks)
    bounds = cost_bounds(options.fail_if) if is_pair else ()
    plan = deciding(plan, bounds)
    if blocks is not None:
        solo = min(plan.closed_loop_blocks, blocks)
        plan = updated(plan, blocks=blocks, blocks_max=blocks, closed_loop_blocks=solo)
    if options.closed_loop or options.pipeline > 1 or needs_closed_loop(options.fail_if):
        return updated(plan, closed_loop_blocks=plan.blocks_max)
    if blocks is None and not options.fail_if:
        return anytime(
            plan,
            _mode(options),
            seconds=options.time_limit or 0.0,
            precision=math.log1p(options.precision or 0.0),
        )
    if bounds and len(bounds) == len(options.fail_if):
        # No bound depends on full load, and its trials would take a fifth of the time.
        return updated(plan, closed_loop_blocks=0, capacity_blocks=0)
    return plan


def _mode(options: CompareOptions) -> Mode:
    return Mode.QUICK if options.quick else Mode.STANDARD


def _check_websocket(options: CompareOptions) -> None:
    excluded = {
        "--raw": options.raw,
        "-m": options.method != "GET",
        "--pipeline": options.pipeline > 1,
        "--no-keepalive": not options.keepalive,
    }
    for name, is_given in excluded.items():
        if is_given:
            raise InputError(f"--websocket and {name} exclude each other")


def _body(given: str | None) -> bytes:
    if given is None:
        return b""
    if not given.startswith("@"):
        return given.encode()
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise InputError(f"--body {given}: {error.strerror}") from error
