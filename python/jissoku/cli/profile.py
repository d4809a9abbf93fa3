"""`jissoku profile`: CPU time per request by function, with intervals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.param_types import Rate
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.write_reports import write_profile_report
from jissoku.errors import InputError
from jissoku.model import ConnectionMode, Transport, Workload
from jissoku.observe.profiler import FREQUENCY_HZ
from jissoku.pipeline.profile import ProfileConfig, profile as run_profile
from jissoku.pipeline.reports import TARGETS_MAX
from jissoku.pipeline.selection import Selection, folder_for, prepare_targets
from jissoku.system.cores import core_assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Values of the command line; fields are named as the options."""

    targets: tuple[str, ...]
    cmd: tuple[str, ...]
    url: tuple[str, ...]
    recipes: tuple[Path, ...]
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    rate: int | None
    duration: float
    frequency: int
    keepalive: bool
    websocket: bool
    unix: bool
    seed: int
    out: Path | None
    server_cores: str | None
    generator_cores: str | None
    as_json: bool
    quiet: bool


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET | NAME=TARGET]...")
@click.option(
    "--cmd",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Profile a command; {port} (or {socket}) is replaced by its address.",
)
@click.option(
    "--url", multiple=True, metavar="NAME=URL", help="Profile a server that runs here already."
)
@shared_options.recipes
@shared_options.path
@shared_options.header
@shared_options.connections("Connections of the load.")
@click.option(
    "-R",
    "--rate",
    type=Rate(),
    help="Request rate in requests per second. Default: the highest of 1,000, 5,000 and 20,000 per"
    " core that is at most 60 % of the target's closed-loop rate.",
)
@click.option(
    "-d",
    "--duration",
    default=20.0,
    show_default=True,
    type=click.FloatRange(0.5, 86_400),
    metavar="SECONDS",
    help="Length of the measurement window. Twice the time makes intervals a third narrower.",
)
@click.option(
    "-F",
    "--frequency",
    default=FREQUENCY_HZ,
    show_default=True,
    type=click.IntRange(1, 20_000),
    help="Samples per second of CPU time.",
)
@shared_options.keepalive
@shared_options.websocket
@shared_options.unix
@shared_options.seed
@shared_options.out
@shared_options.server_cores
@shared_options.generator_cores
@shared_options.as_json("all tables")
@shared_options.quiet
def profile(**given: Any) -> int:
    """Show which functions a target's CPU time per request goes to.

    The target is started, warmed up and sent a fixed rate while its processes are sampled. With two
    targets the difference is broken down too: which functions the second spends more or less in.

    The folder holds the record, a report page, flame graphs (SVG), collapsed stacks and pprof
    profiles; `jissoku report` rebuilds them from the record.

    Exit codes: 0 fine, 1 a target failed or nothing can be sampled, 2 bad input, 130 interrupted.
    """
    options = ProfileOptions(**given)
    count = len(options.targets) + len(options.cmd) + len(options.url)
    if not 1 <= count <= TARGETS_MAX:
        raise InputError("name one target, or two to be compared, see `jissoku targets`")
    if options.websocket and not options.keepalive:
        raise InputError("--websocket and --no-keepalive exclude each other")
    lock_machine()
    with ProgressDisplay(quiet=options.quiet or options.as_json) as show:
        config = _profile_config(options, show)
        show.note(f"Records go to {config.folder}.")
        found = run_profile(config, show)
    if found is None:
        return exit_codes.INTERRUPTED
    return write_profile_report(config.folder, as_json=options.as_json)


def _profile_config(options: ProfileOptions, show: ProgressDisplay) -> ProfileConfig:
    wanted = Selection(
        named=options.targets,
        commands=options.cmd,
        urls=options.url,
        recipes=options.recipes,
        path=options.path,
        unix=options.unix,
        floor=False,
    )
    field = prepare_targets(wanted, show)
    names = [arm.arm.name for arm in field.arms]
    return ProfileConfig(
        arms=field.arms,
        workload=Workload(
            path=options.path,
            headers=options.header,
            websocket=options.websocket,
            connections=options.connections,
            connection_mode=ConnectionMode.KEEP_ALIVE
            if options.keepalive
            else ConnectionMode.CLOSE,
            rate_rps=options.rate,
            transport=Transport.UNIX if options.unix else Transport.TCP,
        ),
        cores=core_assignment(options.server_cores, options.generator_cores),
        window_ns=round(options.duration * 1e9),
        seed=options.seed,
        folder=options.out or folder_for("profile", *names),
        version=version_line(),
        frequency=options.frequency,
    )
