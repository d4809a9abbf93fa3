"""`jissoku compare`: differences of CPU cost, latency and capacity, with intervals."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import click
import msgspec

from jissoku import records
from jissoku.cli.frame import ExitCode, exit_code, print_message, version_line
from jissoku.cli.help_groups import Grouped
from jissoku.cli.progress import ProgressDisplay, lock_machine
from jissoku.cli.reports import measured, write_profile_report, write_report
from jissoku.errors import InputError, JissokuError
from jissoku.inference.bounds import check_arms, confirmed
from jissoku.measure import ci
from jissoku.measure.compare import compare as run_campaign
from jissoku.measure.comparison import CompareConfig, check_request, compare_config, profiled_pair
from jissoku.measure.profile import profile
from jissoku.measure.selection import arm_names, folder_for, prepare_targets, workload
from jissoku.model.summary import BoundResult, BoundStatus
from jissoku.model.updated import updated
from jissoku.records.run_folder import check_new, holds_run
from jissoku.report.bounds import FORMATS, bound_sentence
from jissoku.report.history import Suspicion, difference_text, suspicion_text
from jissoku.request import ComparisonRequest, to_argv
from jissoku.request.options import option, verb
from jissoku.request.param_types import Written
from jissoku.request.shared import AsJson, Out, Quiet
from jissoku.system.cores import core_assignment

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


FILE = click.Path(dir_okay=False, path_type=Path)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where results go, and what is printed; no run depends on it.

    Attributes:
        comment: Write the result as a pull request's comment.
        step_summary: Append the result to this Markdown file. Default: $GITHUB_STEP_SUMMARY.
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
    verbose: Annotated[bool, option("-v", "--verbose")] = False
    as_json: AsJson = False
    quiet: Quiet = False


# The options of the help: the common ones of each group, and the others.
GROUPS = {
    "What is compared": (
        ("cmd", "url", "baseline"),
        ("group", "recipes", "build", "label", "profile"),
    ),
    "Load": (
        ("path", "header", "connections", "rate"),
        (
            *("method", "body", "raw", "match", "websocket", "closed_loop", "pipeline"),
            *("keepalive", "unix", "upstream", "objective"),
        ),
    ),
    "How long": (
        ("quick", "time_limit", "precision"),
        ("until", "blocks", "check_blocks", "pairing", "seed", "server_cores", "generator_cores"),
    ),
    "Bounds": (("fail_if",), ("confirm", "undecided")),
    "Output": (
        ("out", "as_json", "quiet"),
        ("verbose", "comment", "step_summary", "export_as"),
    ),
}


@verb(ComparisonRequest, Output, cls=Grouped, groups=GROUPS)
def compare(request: ComparisonRequest, output: Output) -> int:
    """Compare targets: same workload, randomised blocks, verdicts with intervals.

    The first target is the baseline. Without targets, compares the installed default set.
    `jissoku targets` lists all targets; --cmd and --url compare any server. The floor, a minimal
    server, is measured too, with requests of / alone. On a terminal one table shows the ratios
    while they narrow; Ctrl-C ends with the report of what is known.

    Exit codes: 0 success, 1 a target failed, 2 bad input, 3 a bound of --fail-if is proven,
    4 no verdict, or a bound is undecided, 130 interrupted.
    """
    earlier, ref = _split_baseline(request.baseline)
    _check(request, output, ref)
    lock_machine()
    with (
        ProgressDisplay(quiet=output.quiet or output.as_json) as show,
        ci.baseline(ref, request.cmd, request.build, show) if ref else nullcontext() as base,
    ):
        field = prepare_targets(request, show, has_floor=base is None)
        if base is not None:
            field = updated(field, arms=(base, *field.arms))
        config = compare_config(
            request, field, folder=output.out, version=version_line(), is_pair=base is not None
        )
        finished, lost = measured(lambda: _measure(config, show, has_profile=request.profile))
        bounds = ci.evaluate_bounds(config.folder, request.fail_if) if finished else ()
        if request.confirm and ci.any_exceeded(bounds):
            show.note("A bound is exceeded: confirming it with a second run.")
            again = updated(config, folder=_second(config.folder), seed=config.seed + 1)
            finished = _measure(again, show)
            if finished:
                bounds = confirmed(bounds, ci.evaluate_bounds(again.folder, request.fail_if))
        wants_causes = finished and (output.comment or output.step_summary)
        known = ci.find_causes(bounds, config, show) if wants_causes else None
    if not (config.noise_floors or output.quiet or output.as_json):
        click.echo(NOISE_FLOOR_UNKNOWN, err=True)
    code = write_report(
        config.folder, as_json=output.as_json, is_brief=not output.verbose, lost=lost
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


def _check(request: ComparisonRequest, output: Output, ref: str) -> None:
    """Refuses what cannot be measured, before anything is built."""
    check_request(request)
    if request.build and not ref:
        raise InputError("--build requires --baseline with a git ref or a release")
    if ref:
        ci.check_commands(request.cmd, request.build)
    ci.check_folders(
        (output.comment, output.step_summary, *(file for _, file in output.export_as)), output.out
    )
    if output.out is not None:
        check_new(output.out)  # Before a baseline is looked for.
        if request.confirm:
            check_new(_second(output.out))
    workload(request)
    core_assignment(request.server_cores, request.generator_cores)
    names = arm_names(request, has_floor=not ref)
    check_arms(request.fail_if, names | ({ci.BASE} if ref else set()))


def _second(folder: Path) -> Path:
    """The folder of the run that confirms the one in `folder`."""
    named = folder if folder.name else folder.absolute()
    return named.with_name(f"{named.name}-confirmed")


def _measure(config: CompareConfig, show: ProgressDisplay, *, has_profile: bool = False) -> bool:
    """Runs the campaign, and samples its targets afterwards; whether it finished."""
    pair = profiled_pair(config) if has_profile else None
    for unavailable in config.unavailable:
        show.note(unavailable.sentence)
    show.note(f"Seed {config.seed}; records go to {config.folder}.")
    finished = run_campaign(config, show)
    if finished and pair is not None:
        found, finished = profile(pair, show)
        if found:
            records.write_profiles(pair.folder, found)
    return finished


def _split_baseline(given: str | None) -> tuple[Path | None, str]:
    """The folder of an earlier run, or a git ref or release."""
    if given is None:
        return None, ""
    folder = Path(given)
    if holds_run(folder):
        records.read(folder)
        return folder, ""
    ci.check_ref(given)
    return None, given


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
