"""Verbs that measure: `jissoku sweep`, `jissoku bisect` and `jissoku run`."""

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from jissoku.cli.frame import ExitCode, print_message, version_line
from jissoku.cli.progress import ProgressDisplay, lock_machine
from jissoku.cli.reports import publish_experiment, write_report
from jissoku.design import schedule as scale
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.design.schedule import Bisection, bisect as halve
from jissoku.errors import InputError
from jissoku.fleet.connecting import host_of
from jissoku.fleet.emulated import emulated_bench
from jissoku.inference.bounds import check_arms
from jissoku.measure import experiment as story, experiment_file
from jissoku.measure.ci import CANDIDATE, GOOD, CommitQuestion, CommitSearch
from jissoku.measure.comparison import noise_floors
from jissoku.measure.experiment import ExperimentConfig, ExperimentPlan
from jissoku.measure.host import ServerHost, build_paths
from jissoku.measure.loadgen import TrialTiming
from jissoku.measure.reports import measured
from jissoku.measure.selection import (
    PreparedSelection,
    check_server_host,
    folder_for,
    prepare_targets,
    seed,
    workload,
)
from jissoku.measure.sweep import SweepConfig, run_sweep
from jissoku.model import Axis, CoreAssignment, Mode, Recipe, Sweep, plural, time_text
from jissoku.records.run_folder import check_new, holds_run
from jissoku.request import BisectionRequest, ExperimentRequest, SweepRequest
from jissoku.request.options import verb
from jissoku.request.shared import Out, Output, Quiet, output
from jissoku.targets import catalogue
from jissoku.targets.command import build_words, read_command
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
    check_server_host(request)
    axis = Axis(request.over)
    if request.at is not None and axis is Axis.RATE:
        raise InputError(
            "--at needs a fitted model, and none is fitted over rates: omit one of them"
        )
    levels = () if request.levels is None else scale.validated_levels(request.levels)
    lock_machine()
    with (
        ProgressDisplay(quiet=output.is_quiet) as show,
        host_of(request, version_line()) as host,
    ):
        cores = host.assign_cores(request.server_cores, request.generator_cores)
        swept = Sweep(
            axis=axis,
            levels=levels or scale.levels_of(axis, len(cores.server)),
            blocks=request.blocks,
            at=tuple(sorted(set(request.at or ()))),
        )
        field = prepare_targets(request, show, host=host)
        config = _sweep_config(request, output.out, swept, field, cores, host)
        show.note(f"Seed {config.seed}; records go to {config.folder}.")
        finished, lost = measured(lambda: run_sweep(config, show))
    return write_report(config.folder, as_json=output.as_json, is_finished=finished, lost=lost)


def _sweep_config(
    request: SweepRequest,
    out: Path | None,
    swept: Sweep,
    field: PreparedSelection,
    cores: CoreAssignment,
    host: ServerHost,
) -> SweepConfig:
    mode = Mode.QUICK if request.quick else Mode.STANDARD
    plan = SAMPLING_PLANS[mode]
    names = [arm.arm.name for arm in field.arms]
    return SweepConfig(
        arms_prepared=field.arms,
        unavailable=field.unavailable,
        sweep=swept,
        workload=workload(request),
        mode=mode,
        window=TrialTiming(plan.warmup_ns, plan.window_ns),
        seed=seed(request.seed),
        cores=cores,
        folder=out or folder_for("sweep", *names),
        version=version_line(),
        request=request,
        host=host,
    )


class BisectionOutput(msgspec.Struct, frozen=True, kw_only=True):
    out: Out = None
    quiet: Quiet = False


@verb(BisectionRequest, BisectionOutput)
def bisect(request: BisectionRequest, output: BisectionOutput) -> int:
    """Find the commit after GOOD, up to BAD, from which on the server uses more CPU.

    BAD is measured first, and then one commit in each step, built in a worktree and measured
    together with GOOD. An undecided one is measured again with more blocks, and then the commits
    next to it are; after three that stay undecided the remaining range is printed. Before it starts
    it says how long its measurements take at most; builds come on top. With --server-host commits
    are those of the repository in whose folder the agent was started, and are built there.

    Exit codes: 0 found, 1 a build or the server failed, or its host was lost, 2 bad input, 4
    undecided, or BAD is not proven to cost more, 130 interrupted (the commits known to be good and
    bad are printed).
    """
    check_server_host(request)
    if request.fail_if:
        check_arms((request.fail_if,), {GOOD, CANDIDATE})
    program = read_command(f"{GOOD}={request.cmd}").words[0]
    if "=" in program:
        name = program.partition("=")[0]
        raise InputError(f"--cmd: bisect names its arms itself: leave out '{name}='")
    build_words(request.build)
    for folder in output.out.glob("*/") if output.out else ():
        if holds_run(folder):
            check_new(folder)
    with host_of(request, version_line()) as host:
        repository = host.repository()
        good, commits = repository.commits(request.good, request.bad)
        if not commits:
            raise InputError(f"there is no commit between {request.good} and {request.bad}")
        lock_machine()
        question = CommitQuestion(
            request=request,
            good=good,
            commits=commits,
            repository=repository,
            host=host,
            seed=seed(request.seed),
            cores=host.assign_cores(None, None),
            folder=output.out or folder_for("bisect"),
            version=version_line(),
        )
        with ProgressDisplay(quiet=output.quiet) as show:
            search = CommitSearch(question, show)
            show.note(_plan_text(question))
            found = halve(commits, search.judge)
        return _print(found, question, search)


def _plan_text(question: CommitQuestion) -> str:
    count, steps = len(question.commits), question.steps_max
    return (
        f"{count} {plural(count, 'commit')}: {steps} {plural(steps, 'step')}, if each is decided"
        f" at once; measurements take {time_text(question.seconds)} at most, builds come on top."
    )


def _print(found: Bisection, question: CommitQuestion, search: CommitSearch) -> int:
    commits = question.commits

    def named(commit: str) -> str:
        return f"{commit[:12]} {question.repository.subject(commit)}"

    records = f"{found.steps} {plural(found.steps, 'measurement')}; records: {question.folder}"
    after = commits[found.good] if found.good >= 0 else question.good
    if found.bad is not None and found.bad == found.good + 1:
        click.echo(f"The first one is {named(commits[found.bad])}. {records}")
        return ExitCode.OK
    known = f"Known to be good: {named(after)}. Known to be bad: "
    known += "none yet." if found.bad is None else f"{named(commits[found.bad])}."
    if search.lost:
        click.echo(f"Ended early. {known} {records}")
        print_message(f"{search.lost}.")
        return ExitCode.FAILED
    if search.is_interrupted:
        click.echo(f"Interrupted. {known} {records}")
        return ExitCode.INTERRUPTED
    if found.undecided:
        stuck = ", ".join(named(commits[one]) for one in found.undecided)
        click.echo(f"Undecided at {stuck}. {known} {records}")
    elif search.is_over:
        click.echo(f"The time is over; --for gives it more. {known} {records}")
    else:
        click.echo(f"{commits[-1][:12]} does not exceed the bound. {records}")
    return ExitCode.UNDECIDED


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
    check_server_host(request)
    known = catalogue.recipes(request.recipes)
    if request.name is None and request.server_host:
        raise InputError(
            "--server-host needs an EXPERIMENT: without one, those of this host are listed; run"
            " `jissoku run` there"
        )
    if request.name is None:
        return _list(known)
    file = experiment_file.find_experiment(request.name)
    experiment = experiment_file.read(file, known)
    lock_machine()
    is_emulated = any(work.network for work in experiment.workload) and not request.server_host
    with (
        ProgressDisplay(quiet=output.is_quiet) as show,
        emulated_bench(version_line()) if is_emulated else host_of(request, version_line()) as host,
    ):
        config = ExperimentConfig(
            experiment=experiment,
            recipes=known,
            mode=Mode.QUICK if request.quick else Mode.STANDARD,
            seed=seed(request.seed),
            cores=host.assign_cores(None, None),
            folder=output.out or folder_for(experiment.name),
            version=version_line(),
            noise_floors=noise_floors() if host.is_local else {},
            request=request,
            host=host,
        )
        plan = story.plan(config, show)
        _print_plan(plan, show)
        finished, lost = measured(lambda: story.run(plan, show))
    return publish_experiment(
        config.folder, as_json=output.as_json, is_finished=finished, lost=lost
    )


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
