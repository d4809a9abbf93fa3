"""`jissoku profile`: CPU time per request by function, with intervals."""

from pathlib import Path
from typing import Any

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.write_reports import write_profile_report
from jissoku.errors import InputError
from jissoku.measure.profile import TARGETS_MAX, ProfileConfig, profile as run_profile
from jissoku.measure.selection import folder_for, prepare_targets, seed, workload
from jissoku.request import ProfileRequest, asking
from jissoku.system.cores import core_assignment


@click.command()
@asking(ProfileRequest)
@shared_options.out
@shared_options.as_json("all tables")
@shared_options.quiet
def profile(*, out: Path | None, as_json: bool, quiet: bool, **given: Any) -> int:
    """Show which functions a target's CPU time per request goes to.

    The target is started, warmed up and sent a fixed rate while its processes are sampled. With two
    targets the difference is broken down too: which functions the second spends more or less in.

    The folder holds the record, a report page, flame graphs (SVG), collapsed stacks and pprof
    profiles; `jissoku report` rebuilds them from the record.

    Exit codes: 0 fine, 1 a target failed or nothing can be sampled, 2 bad input, 130 interrupted.
    """
    request = ProfileRequest(**given)
    count = len(request.arms) + len(request.cmd) + len(request.url)
    if not 1 <= count <= TARGETS_MAX:
        raise InputError("name one target, or two to be compared, see `jissoku targets`")
    if request.websocket and not request.keepalive:
        raise InputError("--websocket and --no-keepalive exclude each other")
    lock_machine()
    with ProgressDisplay(quiet=quiet or as_json) as show:
        field = prepare_targets(request, show)
        config = ProfileConfig(
            arms=field.arms,
            workload=workload(request),
            cores=core_assignment(request.server_cores, request.generator_cores),
            window_ns=round(request.duration * 1e9),
            seed=seed(request.seed),
            folder=out or folder_for("profile", *(one.arm.name for one in field.arms)),
            version=version_line(),
            frequency=request.frequency,
        )
        show.note(f"Records go to {config.folder}.")
        found = run_profile(config, show)
    if found is None:
        return exit_codes.INTERRUPTED
    return write_profile_report(config.folder, as_json=as_json)
