"""`jissoku run`: runs an experiment and evaluates its claims."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.write_reports import warn_unfinished
from jissoku.measure import experiment as story, experiment_file
from jissoku.measure.comparison import noise_floors
from jissoku.measure.experiment import ExperimentConfig, ExperimentPlan
from jissoku.measure.reports import write_experiment_reports
from jissoku.measure.selection import build_paths, folder_for, seed
from jissoku.model import MeasurementStatus, Mode, Recipe
from jissoku.model.experiment import ClaimStatus, ExperimentResult
from jissoku.request import ExperimentRequest, asking
from jissoku.system import cores
from jissoku.targets import catalogue
from jissoku.targets.prepare import missing_requirement

# Width of the longest built-in name, and a gap.
NAME_WIDTH = 17


@click.command()
@asking(ExperimentRequest)
@shared_options.out
@shared_options.as_json("the results")
@shared_options.quiet
def run(*, out: Path | None, as_json: bool, quiet: bool, **given: Any) -> int:
    """Run an EXPERIMENT, built in by name or from a .toml file, and evaluate its claims.

    Without EXPERIMENT, lists the built-in experiments, each with its missing targets. Claims about
    a missing target cannot be tested; they are reported before the start, and all others are
    tested. Each claim holds, does not hold, is undecided, or is not testable here, with its
    interval or the reason.

    Exit codes: 0 every claim is decided, 1 a target failed, 2 bad input, 4 a claim is undecided,
    130 interrupted (finished trials are kept and evaluated).
    """
    request = ExperimentRequest(**given)
    known = catalogue.recipes(request.recipes)
    if request.name is None:
        return _list(known)
    file = experiment_file.find_experiment(request.name)
    experiment = experiment_file.read(file, known)
    lock_machine()
    with ProgressDisplay(quiet=quiet or as_json) as show:
        config = ExperimentConfig(
            experiment=experiment,
            recipes=known,
            place=build_paths(),
            mode=Mode.QUICK if request.quick else Mode.STANDARD,
            seed=seed(request.seed),
            cores=cores.partition_cores(cores.available_cores()),
            folder=out or folder_for(experiment.name),
            version=version_line(),
            noise_floors=noise_floors(),
            request=request,
        )
        plan = story.plan(config, show)
        _print_plan(plan, show)
        finished = story.run(plan, show)
    code = publish_experiment(config.folder, as_json=as_json)
    return code if finished else exit_codes.INTERRUPTED


def _list(recipes: Mapping[str, Recipe]) -> int:
    """Lists the built-in experiments with their missing targets."""
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
    return exit_codes.OK


def _print_plan(plan: ExperimentPlan, show: ProgressDisplay) -> None:
    """Prints the missing targets, the claims about them, and the estimated duration."""
    header = plan.header
    for unavailable in header.unavailable:
        show.note(unavailable.sentence)
        if names := story.placeholder_arms(header.experiment, {unavailable.name}):
            show.note(f"  Claims about it: {', '.join(names)}.")
    for name, reason in header.skipped.items():
        show.note(f"Workload {name} is skipped: {reason}.")
    mode = "Quick" if header.mode is Mode.QUICK else "Standard"
    workloads = (
        f"{len(plan.comparisons)} {'workload' if len(plan.comparisons) == 1 else 'workloads'}"
    )
    show.note(
        f"{mode}: about {header.minutes:.1f} minutes for {workloads}; seed {header.seed};"
        f" records go to {plan.config.folder}."
    )


def publish_experiment(folder: Path, *, as_json: bool) -> int:
    """Writes the four reports into the experiment's folder, prints one; returns the exit code."""
    warn_unfinished(folder)
    outcome = write_experiment_reports(folder)
    shown = folder / ("report.json" if as_json else "report.txt")
    click.echo(shown.read_text(encoding="utf-8"), nl=False)
    if not as_json:
        click.echo(f"Report: {folder / 'report.html'}")
    return _exit_code(outcome)


def _exit_code(outcome: ExperimentResult) -> int:
    arm_summaries = [s for summary in outcome.summaries.values() for s in summary.arm_summaries]
    if any(arm_summary.status is MeasurementStatus.FAILED for arm_summary in arm_summaries):
        return exit_codes.FAILED
    answers = {claim.status for claim in outcome.claims}
    return exit_codes.UNDECIDED if ClaimStatus.UNDECIDED in answers else exit_codes.OK
