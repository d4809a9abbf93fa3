"""`jissoku compare`: differences of CPU cost, latency and capacity, with intervals."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from jissoku import records
from jissoku.cli import exit_codes, shared_options
from jissoku.cli.ci_options import ci_options
from jissoku.cli.compare_options import (
    CompareOptions,
    compare_config,
    profiled_pair,
    selection,
    workload,
)
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import print_message
from jissoku.cli.param_types import (
    LatencyObjective,
    MethodName,
    MethodToken,
    Percentage,
    Rate,
    Seconds,
)
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.write_reports import write_profile_report, write_report
from jissoku.errors import InputError
from jissoku.model import Transport
from jissoku.model.bound import BoundResult, BoundStatus
from jissoku.model.updated import updated
from jissoku.pipeline import CompareConfig, PreparedArm, compare as run_campaign
from jissoku.pipeline.causes import find_causes
from jissoku.pipeline.ci import CiFiles, any_exceeded, check_folders, judge, write_ci_files
from jissoku.pipeline.commits import BASE, baseline, check_commands, check_ref
from jissoku.pipeline.profile import profile
from jissoku.pipeline.selection import arm_names, prepare_targets
from jissoku.records.run_folder import RUN_FILE, check_new
from jissoku.report.bounds import bound_sentence
from jissoku.report.history_text import difference_text
from jissoku.stats.bounds import check_arms, confirmed
from jissoku.system.cores import core_assignment

NOISE_FLOOR_UNKNOWN = (
    "The noise floor of this machine is unknown: `jissoku self-test` measures it, and later"
    " verdicts use it."
)


@click.command()
@click.argument("arms", nargs=-1, metavar="[TARGET | NAME=TARGET | TARGET@VERSION]...")
@click.option(
    "--quick/--standard",
    default=True,
    help="At most nine blocks of each of three loads (the default), or 40 at all loads of the grid,"
    " in longer windows.",
)
@click.option(
    "--group",
    default="",
    metavar="GROUP",
    help="Also compare the available targets of a group: wsgi or asgi.",
)
@click.option(
    "--cmd",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Compare a command; {port} (or {socket}) is replaced by its address.",
)
@click.option(
    "--url", multiple=True, metavar="NAME=URL", help="Compare an external server at this URL."
)
@shared_options.recipes
@shared_options.path
@click.option(
    "-m", "--method", type=MethodToken(), default="GET", show_default=True, help="HTTP method."
)
@shared_options.header
@click.option("--body", help="Request body, or @FILE to read it from a file. Default: none.")
@click.option(
    "--raw",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with a whole request; several are sent in rotation. {PATH} and {HOST} are replaced.",
)
@shared_options.websocket
@shared_options.connections("Connections per target.")
@click.option(
    "-R",
    "--rate",
    type=Rate(),
    help="Compare at this rate only, in requests per second. Default: at the loads of the grid"
    " that two targets reach (1,000, 5,000 and 20,000 per core of the server in quick mode).",
)
@click.option(
    "--closed-loop",
    is_flag=True,
    help="Closed loop: each connection sends its next request when the response has arrived.",
)
@click.option(
    "--pairing",
    "method_name",
    type=MethodName(),
    help="How targets are compared: time-sliced or paired. Default: paired for targets that"
    " run the same program, else time-sliced.",
)
@click.option(
    "--objective",
    type=LatencyObjective(),
    default="p99<10ms",
    show_default=True,
    help="Latency objective that a capacity must meet.",
)
@click.option(
    "--pipeline",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1024),
    help="Requests in flight per connection.",
)
@shared_options.keepalive
@shared_options.unix
@click.option(
    "--upstream",
    type=click.Choice([str(kind) for kind in Transport]),
    default=str(Transport.TCP),
    show_default=True,
    help="Where the servers behind reverse proxies listen; their CPU time is not counted.",
)
@click.option(
    "--until",
    type=click.Choice(["decided"]),
    default="decided",
    show_default=True,
    help="When to end: when every pair is decided at every load, at the latest after the blocks of"
    " the mode (9 or 40). Verdicts are looked for after every block, and hold at each of them.",
)
@click.option(
    "--for",
    "time_limit",
    type=Seconds(),
    help="End after this time at the latest, such as 90s or 2m, with the verdicts known by then.",
)
@click.option(
    "--precision",
    type=Percentage(),
    help="End when every interval is within this of its ratio, such as 1%, instead of when every"
    " pair is decided.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 200),
    help="Fixed number of blocks, with a single look after the last one. With --fail-if the"
    " number is chosen by the precision that decides the bound.",
)
@click.option(
    "--check-blocks",
    type=click.IntRange(0, 200),
    help="Blocks that also measure each target alone and with the other slice length."
    " Default: 2 in quick mode, 6 in standard mode.",
)
@shared_options.seed
@shared_options.out
@shared_options.server_cores
@shared_options.generator_cores
@shared_options.labels
@ci_options
@click.option(
    "--profile",
    is_flag=True,
    help="Sample two targets afterwards, and break their difference down by function.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the whole report instead of one screen; it is in report.txt in any case.",
)
@shared_options.as_json("the summary")
@shared_options.quiet
def compare(**given: Any) -> int:
    """Compare targets: same workload, randomised blocks, verdicts with intervals.

    The first target is the baseline. Without targets, compares the installed default set.
    `jissoku targets` lists all targets; --cmd and --url compare any server. The floor, a minimal
    server, is always measured too.

    Exit codes: 0 success, 1 a target failed, 2 bad input, 3 a bound of --fail-if is proven,
    4 no verdict, or a bound is undecided, 130 interrupted.
    """
    options = CompareOptions(**given)
    earlier, ref = _split_baseline(options.baseline)
    _check(options, ref)
    lock_machine()
    with (
        ProgressDisplay(quiet=options.quiet or options.as_json) as show,
        baseline(ref, options.cmd, options.build, show) if ref else nullcontext() as base,
    ):
        config, finished = _measure(options, base, show)
        bounds = judge(config.folder, options.fail_if) if finished else ()
        if options.confirm and any_exceeded(bounds):
            show.note("A bound is exceeded: confirming it with a second run.")
            folder = _second(config.folder)
            again = updated(options, out=folder, seed=options.seed + 1, profile=False)
            config_again, finished = _measure(again, base, show)
            if finished:
                bounds = confirmed(bounds, judge(config_again.folder, options.fail_if))
        wants_causes = finished and (options.comment or options.step_summary)
        known = find_causes(bounds, config, show) if wants_causes else None
    code = write_report(config.folder, as_json=options.as_json, is_brief=not options.verbose)
    if finished and options.profile:
        write_profile_report(config.folder, as_json=False, quiet=options.as_json)
    if earlier is not None and not options.as_json:
        _print_difference(earlier, config.folder)
    if not (config.noise_floors or options.quiet or options.as_json):
        click.echo(NOISE_FLOOR_UNKNOWN, err=True)
    if not finished:
        return exit_codes.INTERRUPTED
    write_ci_files(
        config.folder,
        bounds,
        CiFiles(
            comment=options.comment,
            step_summary=options.step_summary,
            exports=dict(options.export_as),
        ),
        known,
    )
    return _bound_code(options, bounds) if bounds and code != exit_codes.FAILED else code


def _check(options: CompareOptions, ref: str) -> None:
    """Refuses what cannot be measured, before anything is built.

    Raises:
        InputError: The options contradict each other, or name what is not there.
    """
    if options.build and not ref:
        raise InputError("--build requires --baseline with a git ref or a release")
    _check_end(options)
    if options.confirm and not options.fail_if:
        raise InputError("--confirm requires --fail-if: it confirms that a bound is exceeded")
    if ref:
        check_commands(options.cmd, options.build)
    check_folders(
        (options.comment, options.step_summary, *(file for _, file in options.export_as)),
        options.out,
    )
    if options.out is not None:
        check_new(options.out)
        if options.confirm:
            check_new(_second(options.out))
    workload(options)
    core_assignment(options.server_cores, options.generator_cores)
    wanted = selection(options, floor=not ref)
    check_arms(options.fail_if, arm_names(wanted) | ({BASE} if ref else set()))


def _check_end(options: CompareOptions) -> None:
    """Refuses two ends of one run.

    Raises:
        InputError: The number of blocks is fixed, and it may end earlier.
    """
    early = "--for" if options.time_limit else "--precision" if options.precision else ""
    fixed = {
        "--blocks": options.blocks is not None,
        "--fail-if": bool(options.fail_if),
        "--closed-loop": options.closed_loop,
        "--pipeline": options.pipeline > 1,
    }
    for name, is_given in fixed.items():
        if early and is_given:
            raise InputError(
                f"{early} and {name} exclude each other: the number of blocks is fixed"
            )


def _second(folder: Path) -> Path:
    """The folder of the run that confirms the one in `folder`."""
    named = folder if folder.name else folder.absolute()
    return named.with_name(f"{named.name}-confirmed")


def _measure(
    options: CompareOptions, base: PreparedArm | None, show: ProgressDisplay
) -> tuple[CompareConfig, bool]:
    """Prepares the targets and runs the campaign; whether it finished."""
    field = prepare_targets(selection(options, floor=base is None), show)
    if base is not None:
        field = updated(field, arms=(base, *field.arms))
    config = compare_config(options, field, is_pair=base is not None)
    for unavailable in field.unavailable:
        show.note(unavailable.sentence)
    show.note(f"Seed {config.seed}; records go to {config.folder}.")
    pair = profiled_pair(config) if options.profile else None
    finished = run_campaign(config, show)
    if finished and pair is not None:
        finished = profile(pair, show) is not None
    return config, finished


def _print_difference(earlier: Path, later: Path) -> None:
    # Most comparisons have no earlier run.
    from jissoku.pipeline.history import compare_folders  # noqa: PLC0415

    click.echo(difference_text(compare_folders(earlier, later)), nl=False)


def _split_baseline(given: str | None) -> tuple[Path | None, str]:
    """The folder of an earlier run, or a git ref or release.

    Raises:
        InputError: It is none of them, or the run's records cannot be read.
    """
    if given is None:
        return None, ""
    folder = Path(given)
    if (folder / RUN_FILE).is_file():
        records.read(folder)
        return folder, ""
    check_ref(given)
    return None, given


def _bound_code(options: CompareOptions, bounds: Sequence[BoundResult]) -> int:
    for one in bounds:
        print_message(f"fail if {bound_sentence(one)}.")
    if any_exceeded(bounds):
        return exit_codes.BOUND_EXCEEDED
    is_open = any(one.status is BoundStatus.UNDECIDED for one in bounds)
    return exit_codes.UNDECIDED if is_open and options.undecided == "fail" else exit_codes.OK
