"""`jissoku sweep`: how a target scales with connections, workers or rate."""

from pathlib import Path
from typing import Any

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.write_reports import write_report
from jissoku.design import schedule as plan
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.errors import InputError
from jissoku.measure.selection import folder_for, prepare_targets, seed, workload
from jissoku.measure.sweep import SweepConfig, run_sweep
from jissoku.measure.trial import TrialTiming
from jissoku.model import Axis, CoreAssignment, Mode, Sweep
from jissoku.request import SweepRequest, asking
from jissoku.system.cores import core_assignment


@click.command()
@asking(SweepRequest)
@shared_options.out
@shared_options.as_json("the summary")
@shared_options.quiet
def sweep(*, out: Path | None, as_json: bool, quiet: bool, **given: Any) -> int:
    """Sweep connections, workers or rate, and fit the Universal Scalability Law.

    Each level is measured in every block, in random order. A peak is reported only if it is
    proven, and a capacity only if the fit supports it.

    Exit codes: 0 success, 1 a target failed, 2 bad input, 4 nothing could be fitted or was
    sustained, 130 interrupted.
    """
    request = SweepRequest(**given)
    if not (request.arms or request.cmd or request.url):
        raise InputError("name a target to sweep, see `jissoku targets`")
    lock_machine()
    with ProgressDisplay(quiet=quiet or as_json) as show:
        config = _sweep_config(request, out, show)
        show.note(f"Seed {config.seed}; records go to {config.folder}.")
        finished = run_sweep(config, show)
    code = write_report(config.folder, as_json=as_json)
    return code if finished else exit_codes.INTERRUPTED


def _sweep_config(request: SweepRequest, out: Path | None, show: ProgressDisplay) -> SweepConfig:
    cores = core_assignment(request.server_cores, request.generator_cores)
    asked = _sweep(request, cores)
    field = prepare_targets(request, show)
    mode = Mode.QUICK if request.quick else Mode.STANDARD
    effort = SAMPLING_PLANS[mode]
    names = [arm.arm.name for arm in field.arms]
    return SweepConfig(
        arms_prepared=field.arms,
        unavailable=field.unavailable,
        sweep=asked,
        workload=workload(request),
        mode=mode,
        window=TrialTiming(effort.warmup_ns, effort.window_ns),
        seed=seed(request.seed),
        cores=cores,
        folder=out or folder_for("sweep", *names),
        version=version_line(),
        request=request,
    )


def _sweep(request: SweepRequest, cores: CoreAssignment) -> Sweep:
    axis = Axis(request.over)
    levels = plan.levels_of(axis, len(cores.server))
    if request.levels is not None:
        levels = plan.validated(request.levels)
    if request.at is not None and axis is Axis.RATE:
        raise InputError(
            "--at needs a fitted model, and none is fitted over rates: omit one of them"
        )
    return Sweep(
        axis=axis,
        levels=levels,
        blocks=request.blocks,
        at=tuple(sorted(set(request.at or ()))),
    )
