"""`jissoku sweep`: how a target scales with connections, workers or rate."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.param_types import Rate
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.write_reports import write_report
from jissoku.design import levels as plan
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.errors import InputError
from jissoku.model import Axis, ConnectionMode, CoreAssignment, Mode, Sweep, Transport, Workload
from jissoku.pipeline import SweepConfig, run_sweep
from jissoku.pipeline.selection import Selection, folder_for, prepare_targets
from jissoku.pipeline.trial_runner import TrialTiming
from jissoku.system.cores import core_assignment

RANGE = re.compile(r"(\d+)-(\d+)")
LEVELS_MAX = 64


class LevelList(click.ParamType[tuple[int, ...]]):
    """A list of levels, such as `1,2,4-8` or `5k,10k`."""

    name = "levels"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        for word in str(value).split(","):
            both = RANGE.fullmatch(word)
            if both is None:
                found.append(Rate().convert(word, param, ctx))
            elif int(both[2]) - int(both[1]) <= LEVELS_MAX:
                found.extend(range(int(both[1]), int(both[2]) + 1))
            else:
                self.fail(f"{word!r} is more than {LEVELS_MAX} levels: name fewer", param, ctx)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Values of the command line; fields are named as the options."""

    arms: tuple[str, ...]
    over: str
    levels: tuple[int, ...] | None
    at: tuple[int, ...] | None
    quick: bool
    blocks: int
    cmd: tuple[str, ...]
    url: tuple[str, ...]
    recipes: tuple[Path, ...]
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    keepalive: bool
    unix: bool
    seed: int
    out: Path | None
    server_cores: str | None
    generator_cores: str | None
    as_json: bool
    quiet: bool


@click.command()
@click.argument("arms", nargs=-1, metavar="TARGET [TARGET | NAME=TARGET]...")
@click.option(
    "--over",
    type=click.Choice([str(axis) for axis in Axis]),
    default=str(Axis.CONNECTIONS),
    show_default=True,
    help="The factor to vary.",
)
@click.option(
    "--levels",
    type=LevelList(),
    metavar="LIST",
    help="Levels, such as 1,2,4-8; at least six. Default: chosen for the factor.",
)
@click.option(
    "--at",
    type=LevelList(),
    metavar="LIST",
    help="Levels at which to predict the rate, if the fit supports it.",
)
@click.option("--quick/--standard", default=True, help="Windows of 0.4 s (the default), or of 2 s.")
@click.option(
    "--blocks",
    type=click.IntRange(plan.BLOCKS_MIN, 200),
    default=plan.BLOCKS,
    show_default=True,
    help="How often each level is measured.",
)
@click.option(
    "--cmd",
    multiple=True,
    metavar="NAME=COMMAND",
    help="A command; {port} (or {socket}) and {workers} are filled in.",
)
@click.option("--url", multiple=True, metavar="NAME=URL", help="An external server at this URL.")
@shared_options.recipes
@shared_options.path
@shared_options.header
@shared_options.connections("Connections, where they are not the factor.")
@shared_options.keepalive
@shared_options.unix
@shared_options.seed
@shared_options.out
@shared_options.server_cores
@shared_options.generator_cores
@shared_options.as_json("the summary")
@shared_options.quiet
def sweep(**given: Any) -> int:
    """Sweep connections, workers or rate, and fit the Universal Scalability Law.

    Each level is measured in every block, in random order. A peak is reported only if it is
    proven, and a capacity only if the fit supports it.

    Exit codes: 0 success, 1 a target failed, 2 bad input, 4 nothing could be fitted or was
    sustained, 130 interrupted.
    """
    options = SweepOptions(**given)
    if not (options.arms or options.cmd or options.url):
        raise InputError("name a target to sweep, see `jissoku targets`")
    lock_machine()
    with ProgressDisplay(quiet=options.quiet or options.as_json) as show:
        config = _sweep_config(options, show)
        show.note(f"Seed {config.seed}; records go to {config.folder}.")
        finished = run_sweep(config, show)
    code = write_report(config.folder, as_json=options.as_json)
    return code if finished else exit_codes.INTERRUPTED


def _sweep_config(options: SweepOptions, show: ProgressDisplay) -> SweepConfig:
    cores = core_assignment(options.server_cores, options.generator_cores)
    asked = _sweep(options, cores)
    wanted = Selection(
        named=options.arms,
        commands=options.cmd,
        urls=options.url,
        recipes=options.recipes,
        path=options.path,
        unix=options.unix,
        floor=False,
    )
    field = prepare_targets(wanted, show)
    mode = Mode.QUICK if options.quick else Mode.STANDARD
    effort = SAMPLING_PLANS[mode]
    names = [arm.arm.name for arm in field.arms]
    return SweepConfig(
        arms_prepared=field.arms,
        unavailable=field.unavailable,
        sweep=asked,
        workload=Workload(
            path=options.path,
            headers=options.header,
            connections=options.connections,
            connection_mode=ConnectionMode.KEEP_ALIVE
            if options.keepalive
            else ConnectionMode.CLOSE,
            transport=Transport.UNIX if options.unix else Transport.TCP,
        ),
        mode=mode,
        window=TrialTiming(effort.warmup_ns, effort.window_ns),
        seed=options.seed,
        cores=cores,
        folder=options.out or folder_for("sweep", *names),
        version=version_line(),
    )


def _sweep(options: SweepOptions, cores: CoreAssignment) -> Sweep:
    axis = Axis(options.over)
    levels = plan.levels_of(axis, len(cores.server))
    if options.levels is not None:
        levels = plan.validated(options.levels)
    if options.at is not None and axis is Axis.RATE:
        raise InputError(
            "--at needs a fitted model, and none is fitted over rates: omit one of them"
        )
    return Sweep(
        axis=axis,
        levels=levels,
        blocks=options.blocks,
        at=tuple(sorted(set(options.at or ()))),
    )
