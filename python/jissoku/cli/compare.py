"""`jissoku compare`: differences of CPU cost, latency and capacity, with intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click
import msgspec

from jissoku import records
from jissoku.cli.frame import ExitCode, exit_code, print_message, version_line
from jissoku.cli.help import GROUPS, Grouped
from jissoku.cli.machines import compare_machines
from jissoku.cli.progress import ProgressDisplay, lock_machine
from jissoku.cli.reports import write_profile_report, write_report
from jissoku.errors import JissokuError
from jissoku.fleet.connecting import host_of
from jissoku.fleet.fleet_file import on_fleet
from jissoku.measure import ci
from jissoku.measure.asked_comparison import check_asked, measured_comparison
from jissoku.measure.selection import folder_for
from jissoku.model.summary import BoundResult, BoundStatus
from jissoku.report.bounds import FORMATS, bound_sentence
from jissoku.report.history import Suspicion, difference_text, suspicion_text
from jissoku.request import ComparisonRequest, to_argv
from jissoku.request.options import option, verb
from jissoku.request.param_types import Written
from jissoku.request.shared import DIRECTORY, FILE, AsJson, Out, Quiet

NOISE_FLOOR_UNKNOWN = (
    "The noise floor of this machine is unknown: `jissoku self-test` measures it, and later"
    " verdicts use it."
)


def read_export(text: str) -> tuple[str, Path]:
    """A format and a file: `junit=bounds.xml`; else ValueError."""
    name, equals, file = text.partition("=")
    if not equals or not file or name not in FORMATS:
        raise ValueError(f"{text!r}: write FORMAT=FILE; formats are {', '.join(FORMATS)}")
    return name, Path(file)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where results go, and what is printed; no run depends on it.

    Attributes:
        comment: Write the result as a pull request's comment.
        step_summary: Append the result to this Markdown file. Default: $GITHUB_STEP_SUMMARY.
        resume: Continue this run of several machines: what they have is pulled, and what is missing
            is measured. All else is as it was asked for then.
        verbose: Print the whole report instead of one screen; it is in report.txt in any case.
        as_json: Print the summary as JSON.
    """

    out: Out = None
    comment: Annotated[Path | None, option("--comment", type=FILE)] = None
    step_summary: Annotated[
        Path | None, option("--step-summary", type=FILE, envvar="GITHUB_STEP_SUMMARY")
    ] = None
    export_as: Annotated[
        tuple[tuple[str, Path], ...],
        option(
            "--export",
            type=Written("export", read_export),
            metavar="FORMAT=FILE",
            help=f"Write results for another tool: {', '.join(FORMATS)}; repeatable.",
        ),
    ] = ()
    resume: Annotated[Path | None, option("--resume", type=DIRECTORY, metavar="RUN")] = None
    verbose: Annotated[bool, option("-v", "--verbose")] = False
    as_json: AsJson = False
    quiet: Quiet = False


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts by their names in a file; a run has their addresses.

    Attributes:
        fleet: Fleet file, as `jissoku fleet init` writes it: compare on each of its hosts by itself
            (as --machine), or on one bench. Default with --bench: fleet.toml.
        bench: Bench of the fleet file: its server host (as --server-host) and its load hosts (as
            --load-host).
    """

    fleet: Annotated[Path | None, option("--fleet", type=FILE)] = None
    bench: Annotated[str, option("--bench", metavar="NAME")] = ""


@verb(ComparisonRequest, Places, Output, cls=Grouped, groups=GROUPS["compare"])
def compare(request: ComparisonRequest, places: Places, output: Output) -> int:
    """Compare targets: same workload, randomised blocks, verdicts with intervals.

    The first target is the baseline. Recipes count before --cmd, and those before --url, wherever
    they stand; the baseline is named before the start. Without targets, compares the installed
    default set.
    `jissoku targets` lists all targets; --cmd and --url compare any server. The floor, a minimal
    server, is measured too, with requests of / alone. On a terminal one table shows the ratios
    while they narrow; Ctrl-C ends with the report of what is known.

    Exit codes: 0 success, 1 a target failed, or ended by itself (verdicts that were proven before
    are printed), 2 bad input, 3 a bound of --fail-if is proven, 4 no verdict, or a bound is
    undecided, 130 interrupted.
    """
    request = on_fleet(request, places.fleet, places.bench)
    if request.machine or output.resume:
        return compare_machines(
            request, output.out, output.resume, is_quiet=output.quiet, as_json=output.as_json
        )
    ci.check_folders(
        (output.comment, output.step_summary, *(file for _, file in output.export_as)), output.out
    )
    earlier, ref = check_asked(request, output.out)
    lock_machine()
    with (
        ProgressDisplay(quiet=output.quiet or output.as_json) as show,
        host_of(request, version_line()) as host,
        measured_comparison(request, ref, output.out, version_line(), show, host) as done,
    ):
        config, finished, bounds, lost = done.config, done.is_finished, done.bounds, done.lost
        wants_causes = finished and (output.comment or output.step_summary)
        known = ci.find_causes(bounds, config, show) if wants_causes else None
    if host.is_local and not (config.noise_floors or output.quiet or output.as_json):
        click.echo(NOISE_FLOOR_UNKNOWN, err=True)
    code = write_report(
        config.folder,
        as_json=output.as_json,
        is_brief=not output.verbose,
        lost=lost,
        seen=done.trials,
    )
    if request.profile and records.read_profiles(config.folder):
        write_profile_report(config.folder, as_json=False, quiet=output.as_json)
    if earlier is not None and not output.as_json:
        # Most comparisons have no earlier run.
        from jissoku.measure.history import compare_folders  # noqa: PLC0415

        click.echo(difference_text(compare_folders(earlier, config.folder)), nl=False)
    if not finished:
        return code if lost else ExitCode.INTERRUPTED
    ci.write_ci_files(
        config.folder,
        bounds,
        known,
        comment_file=output.comment,
        step_summary=output.step_summary,
        exports=dict(output.export_as),
    )
    return _bound_code(request, bounds) if bounds and code != ExitCode.FAILED else code


def _bound_code(request: ComparisonRequest, bounds: Sequence[BoundResult]) -> int:
    for one in bounds:
        print_message(f"fail if {bound_sentence(one)}.")
    is_open = any(one.status is BoundStatus.UNDECIDED for one in bounds)
    is_undecided = is_open and request.undecided == "fail"
    return exit_code(is_exceeded=ci.any_exceeded(bounds), is_undecided=is_undecided)


ANSWERS = {
    BoundStatus.EXCEEDED: "Confirmed",
    BoundStatus.KEPT: "Refuted",
    BoundStatus.UNDECIDED: "Not confirmed",
}


def confirm(found: Sequence[Suspicion]) -> int:
    """Runs each command once: several suspicions, as of one change at three loads, may share it.

    Exit codes: 3 one is confirmed, 4 one stays open, 0 none does.
    """
    requests = {one.change.confirmation.request: one for one in found if one.change.confirmation}
    open_ones = [one for one in found if one.change.confirmation is None]
    for one in open_ones:
        click.echo(f"{suspicion_text(one)}\n")
    answers = [BoundStatus.UNDECIDED] * len(open_ones)
    for number, one in enumerate(requests.values(), 1):
        click.echo(suspicion_text(one))
        status = _measured(one, number)
        if status is None:
            return ExitCode.INTERRUPTED
        answers.append(status)
    return exit_code(
        is_exceeded=BoundStatus.EXCEEDED in answers, is_undecided=BoundStatus.UNDECIDED in answers
    )


def _measured(one: Suspicion, number: int) -> BoundStatus | None:
    """The result of a run of both programs; None if it was interrupted."""
    asked = one.change.confirmation
    assert asked is not None, "only suspicions with a command are measured"
    folder = folder_for("confirm", str(number), one.series.arm)
    # That the later program differs in the suspected direction.
    before, after = asked.arms
    bound = f"cost({after}) {'>' if one.change.change.mean > 0 else '<'} cost({before})"
    words = ["--out", str(folder), *to_argv(asked.request)[1:]]
    try:
        code = compare.main(words, "jissoku compare", standalone_mode=False)
        if code == ExitCode.INTERRUPTED:
            return None
        (found,) = ci.evaluate_bounds(folder, [bound])
    except (JissokuError, click.ClickException) as error:
        click.echo(f"Not measured: {error}\n")
        return BoundStatus.UNDECIDED
    click.echo(f"{ANSWERS[found.status]}: {bound_sentence(found)}. Records: {folder}\n")
    return found.status
