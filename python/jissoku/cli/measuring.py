"""Verbs that measure: `jissoku sweep`, `jissoku bisect` and `jissoku run`."""

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from jissoku.cli.frame import ExitCode, version_line
from jissoku.cli.progress import ProgressDisplay, lock_machine
from jissoku.cli.reports import measured, publish_experiment, write_report
from jissoku.design import schedule as scale
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.design.schedule import Bisection, bisect as halve
from jissoku.errors import InputError
from jissoku.inference.bounds import check_arms
from jissoku.measure import experiment as story, experiment_file
from jissoku.measure.ci import CANDIDATE, GOOD, CommitQuestion, compare_commits
from jissoku.measure.comparison import noise_floors
from jissoku.measure.experiment import ExperimentConfig, ExperimentPlan
from jissoku.measure.selection import build_paths, folder_for, prepare_targets, seed, workload
from jissoku.measure.sweep import SweepConfig, run_sweep
from jissoku.measure.trial import TrialTiming
from jissoku.model import Axis, Mode, Recipe, Sweep
from jissoku.model.summary import BoundStatus
from jissoku.model.wording import plural
from jissoku.records.run_folder import check_new, holds_run
from jissoku.report.bounds import bound_sentence
from jissoku.request import BisectionRequest, ExperimentRequest, SweepRequest
from jissoku.request.options import verb
from jissoku.request.shared import Out, Output, Quiet, output
from jissoku.system.cores import core_assignment
from jissoku.system.interruption import Interrupted
from jissoku.targets import catalogue
from jissoku.targets.command import build_words, commits_between, read_command, resolve, subject
from jissoku.targets.prepare import missing_requirement


@verb(SweepRequest, output("the summary"))
def sweep(request: SweepRequest, output: Output) -> int:
    """Sweep connections, workers or rate, and fit the Universal Scalability Law.

    Each level is measured in every block, in random order. A peak is reported only if it is
    proven, and a capacity only if the fit supports it.

    Exit codes: 0 success, also where the reason why no model is fitted is printed, 1 a target
    failed, 2 bad input, 4 nothing was measured, 130 interrupted.
    """
    if not (request.arms or request.cmd or request.url):
        raise InputError("name a target to sweep, see `jissoku targets`")
    lock_machine()
    with ProgressDisplay(quiet=output.is_quiet) as show:
        config = _sweep_config(request, output.out, show)
        show.note(f"Seed {config.seed}; records go to {config.folder}.")
        finished, lost = measured(lambda: run_sweep(config, show))
    return write_report(config.folder, as_json=output.as_json, is_finished=finished, lost=lost)


def _sweep_config(request: SweepRequest, out: Path | None, show: ProgressDisplay) -> SweepConfig:
    cores = core_assignment(request.server_cores, request.generator_cores)
    axis = Axis(request.over)
    levels = scale.levels_of(axis, len(cores.server))
    if request.levels is not None:
        levels = scale.validated_levels(request.levels)
    if request.at is not None and axis is Axis.RATE:
        raise InputError(
            "--at needs a fitted model, and none is fitted over rates: omit one of them"
        )
    at = tuple(sorted(set(request.at or ())))
    field = prepare_targets(request, show)
    mode = Mode.QUICK if request.quick else Mode.STANDARD
    effort = SAMPLING_PLANS[mode]
    names = [arm.arm.name for arm in field.arms]
    return SweepConfig(
        arms_prepared=field.arms,
        unavailable=field.unavailable,
        sweep=Sweep(axis=axis, levels=levels, blocks=request.blocks, at=at),
        workload=workload(request),
        mode=mode,
        window=TrialTiming(effort.warmup_ns, effort.window_ns),
        seed=seed(request.seed),
        cores=cores,
        folder=out or folder_for("sweep", *names),
        version=version_line(),
        request=request,
    )


class BisectionOutput(msgspec.Struct, frozen=True, kw_only=True):
    out: Out = None
    quiet: Quiet = False


@verb(BisectionRequest, BisectionOutput)
def bisect(request: BisectionRequest, output: BisectionOutput) -> int:
    """Find the commit after GOOD, up to BAD, from which on the server uses more CPU.

    Each step builds one commit in a worktree and measures it together with GOOD. An undecided one
    is measured again with more blocks, and then the commits next to it are; after three that stay
    undecided the remaining range is printed.

    Exit codes: 0 found, 1 a build or the server failed, 2 bad input, 4 undecided, or BAD is not
    proven to cost more, 130 interrupted.
    """
    check_arms((request.fail_if,), {GOOD, CANDIDATE})
    program = read_command(f"{GOOD}={request.cmd}").words[0]
    if "=" in program:
        name = program.partition("=")[0]
        raise InputError(f"--cmd: bisect names its arms itself: leave out '{name}='")
    build_words(request.build)
    for folder in output.out.glob("*/") if output.out else ():
        if holds_run(folder):
            check_new(folder)
    good = resolve(request.good)
    commits = commits_between(good, resolve(request.bad))
    if not commits:
        raise InputError(f"there is no commit between {request.good} and {request.bad}")
    lock_machine()
    question = CommitQuestion(
        request=request,
        good=good,
        seed=seed(request.seed),
        cores=core_assignment(None, None),
        folder=output.out or folder_for("bisect"),
        version=version_line(),
    )
    interrupted = False
    with ProgressDisplay(quiet=output.quiet) as show:

        def judge(commit: str, attempt: int) -> BoundStatus | None:
            nonlocal interrupted
            try:
                result = compare_commits(question, commit, attempt, show)
            except Interrupted:
                interrupted = True
                return None
            show.note(f"{commit[:12]} {subject(commit)}: {bound_sentence(result)}.")
            return result.status

        found = halve(commits, judge)
    return _print(found, commits, question, interrupted=interrupted)


def _print(
    found: Bisection, commits: tuple[str, ...], question: CommitQuestion, *, interrupted: bool
) -> int:
    records = f"{found.steps} {plural(found.steps, 'measurement')}; records: {question.folder}"
    after = commits[found.good] if found.good >= 0 else question.good
    span = f"The first one is after {after[:12]}"
    if found.bad is not None:
        span += f", and {commits[found.bad][:12]} at the latest"
    if interrupted:
        click.echo(f"Interrupted. {span}. {records}")
        return ExitCode.INTERRUPTED
    if found.undecided:
        stuck = ", ".join(f"{commits[one][:12]} {subject(commits[one])}" for one in found.undecided)
        click.echo(f"Undecided at {stuck}. {span}. {records}")
        return ExitCode.UNDECIDED
    if found.bad is None:
        click.echo(f"{commits[-1][:12]} does not exceed the bound. {records}")
        return ExitCode.UNDECIDED
    first = commits[found.bad]
    click.echo(f"The first one is {first[:12]} {subject(first)}. {records}")
    return ExitCode.OK


# Width of the longest built-in name, and a gap.
NAME_WIDTH = 17


@verb(ExperimentRequest, output("the results"))
def run(request: ExperimentRequest, output: Output) -> int:
    """Run an EXPERIMENT, built in by name or from a .toml file, and evaluate its claims.

    Without EXPERIMENT, lists the built-in experiments, each with its missing targets. Claims about
    a missing target cannot be tested; they are reported before the start, and all others are
    tested. Each claim holds, does not hold, is undecided, or is not testable here, with its
    interval or the reason.

    Exit codes: 0 every claim is decided, 1 a target failed, 2 bad input, 4 a claim is undecided,
    130 interrupted (finished trials are kept and evaluated).
    """
    known = catalogue.recipes(request.recipes)
    if request.name is None:
        return _list(known)
    file = experiment_file.find_experiment(request.name)
    experiment = experiment_file.read(file, known)
    lock_machine()
    with ProgressDisplay(quiet=output.is_quiet) as show:
        config = ExperimentConfig(
            experiment=experiment,
            recipes=known,
            place=build_paths(),
            mode=Mode.QUICK if request.quick else Mode.STANDARD,
            seed=seed(request.seed),
            cores=core_assignment(None, None),
            folder=output.out or folder_for(experiment.name),
            version=version_line(),
            noise_floors=noise_floors(),
            request=request,
        )
        plan = story.plan(config, show)
        _print_plan(plan, show)
        finished = story.run(plan, show)
    return publish_experiment(config.folder, as_json=output.as_json, is_finished=finished)


def _list(recipes: Mapping[str, Recipe]) -> int:
    where = build_paths()
    for path in experiment_file.builtin_experiments():
        experiment = experiment_file.read(path, recipes)
        click.echo(f"{path.stem:{NAME_WIDTH}}{experiment.title}")
        wanted = dict.fromkeys(one.recipe for one in experiment.target if one.recipe)
        unavailable = [name for name in wanted if missing_requirement(recipes[name], where)]
        if unavailable:
            click.echo(f"{'':{NAME_WIDTH}}unavailable here: {', '.join(unavailable)}")
    click.echo(
        "\n`jissoku run NAME` runs one, in about six minutes; with --standard in about sixteen,"
        " with narrower intervals.\n`jissoku run FILE.toml` runs your own."
        " `jissoku targets` says how to install missing targets."
    )
    return ExitCode.OK


def _print_plan(plan: ExperimentPlan, show: ProgressDisplay) -> None:
    """Prints the missing targets, the claims about them, and the estimated duration."""
    header = plan.header
    for unavailable in header.unavailable:
        show.note(unavailable.sentence)
        if names := story.claims_about(header.experiment, {unavailable.name}):
            show.note(f"  Claims about it: {', '.join(names)}.")
    for name, reason in header.skipped.items():
        show.note(f"Workload {name} is skipped: {reason}.")
    mode = "Quick" if header.mode is Mode.QUICK else "Standard"
    count = len(plan.comparisons)
    show.note(
        f"{mode}: about {header.minutes:.1f} minutes for {count} {plural(count, 'workload')};"
        f" seed {header.seed}; records go to {plan.config.folder}."
    )
