"""`jissoku run`: an experiment, and what becomes of its claims."""

import datetime as dt
import secrets
from collections.abc import Mapping
from pathlib import Path

import click

from jissoku.cli import exits, flags
from jissoku.cli.contestants import place
from jissoku.cli.progress import Show
from jissoku.cli.publish import write
from jissoku.cli.version import version_line
from jissoku.model import Mode, Recipe, Status
from jissoku.model.experiment import Answered, Outcome
from jissoku.observe import cores
from jissoku.pipeline import experiment as story, experiment_file
from jissoku.pipeline.experiment import Plan, Wish
from jissoku.report import experiment as report
from jissoku.targets import catalogue
from jissoku.targets.prepare import missing

# Room for the longest name of ours, and a gap.
NAME_WIDTH = 17


@click.command()
@click.argument("name", metavar="[EXPERIMENT]", required=False)
@click.option(
    "--quick/--standard",
    default=True,
    help="Within six minutes (the default), or within thirty and surer.",
)
@flags.recipes
@click.option("--seed", type=click.IntRange(0), help="Decides every order, role and port.")
@flags.out
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON.")
@flags.quiet
def run(  # noqa: PLR0913 - click hands every option over by its name
    *,
    name: str | None,
    quick: bool,
    recipes: tuple[Path, ...],
    seed: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run an EXPERIMENT, one of ours by name or a .toml file, and answer its claims.

    Without a name, ours are listed, each with the targets that are missing here. A missing one
    costs the claims that speak of it, which is told before the start; the others are raced all the
    same. Each claim ends as: holds, does not hold, undecided, or not testable here, with its
    interval or its reason.

    Exit codes: 0 every claim is answered, 1 a target failed, 2 bad input, 4 a claim is undecided,
    130 interrupted (what was finished is kept, and answered as far as it goes).
    """
    known = catalogue.recipes(recipes)
    if name is None:
        return _list(known)
    file = experiment_file.find(name)
    experiment = experiment_file.read(file, known)
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    with Show(quiet=quiet or as_json) as show:
        wish = Wish(
            experiment=experiment,
            recipes=known,
            place=place(),
            mode=Mode.QUICK if quick else Mode.STANDARD,
            seed=secrets.randbelow(2**31) if seed is None else seed,
            cores=cores.split(cores.allowed()),
            folder=out or Path("runs") / f"{stamp}-{experiment.name}",
            version=version_line(),
        )
        plan = story.plan(wish, show)
        _tell(plan, show)
        finished = story.run(plan, show)
    code = publish_experiment(wish.folder, as_json=as_json)
    return code if finished else exits.INTERRUPTED


def _list(recipes: Mapping[str, Recipe]) -> int:
    """Ours, with what each lacks here, and how to run one."""
    where = place()
    for path in experiment_file.known():
        experiment = experiment_file.read(path, recipes)
        click.echo(f"{path.stem:{NAME_WIDTH}}{experiment.title}")
        wanted = dict.fromkeys(one.recipe for one in experiment.target if one.recipe)
        lacking = [name for name in wanted if missing(recipes[name], where)]
        if lacking:
            click.echo(f"{'':{NAME_WIDTH}}missing here: {', '.join(lacking)}")
    click.echo(
        "\n`jissoku run NAME` runs one, within six minutes; with --standard within thirty, and"
        " surer.\n`jissoku run FILE.toml` runs your own. How to get what is missing: `jissoku"
        " targets`."
    )
    return exits.FINE


def _tell(plan: Plan, show: Show) -> None:
    """What is missing, which claims that costs, and how long it will take."""
    header = plan.header
    for lacking in header.missing:
        show.note(lacking.sentence)
        if names := story.about(header.experiment, {lacking.name}):
            show.note(f"  Claims that speak of it: {', '.join(names)}.")
    for name, reason in header.left_out.items():
        show.note(f"Workload {name} is left out: {reason}.")
    mode = "Quick" if header.mode is Mode.QUICK else "Standard"
    workloads = f"{len(plan.questions)} {'workload' if len(plan.questions) == 1 else 'workloads'}"
    show.note(
        f"{mode}: about {header.minutes:.1f} minutes for {workloads}; seed {header.seed};"
        f" records go to {plan.wish.folder}."
    )


def publish_experiment(folder: Path, *, as_json: bool) -> int:
    """Writes the four reports into the experiment's folder, prints one; returns the exit code."""
    outcome = story.outcome(folder)
    texts = {
        "report.html": report.to_html(outcome),
        "report.md": report.to_markdown(outcome),
        "report.json": report.to_json(outcome),
        "report.txt": report.to_text(outcome),
    }
    write(folder, texts)
    click.echo(texts["report.json" if as_json else "report.txt"], nl=False)
    if not as_json:
        click.echo(f"Report: {folder / 'report.html'}")
    return _code(outcome)


def _code(outcome: Outcome) -> int:
    standings = [s for summary in outcome.summaries.values() for s in summary.standings]
    if any(standing.status is Status.FAILED for standing in standings):
        return exits.FAILED
    answers = {claim.answer for claim in outcome.claims}
    return exits.UNDECIDED if Answered.UNDECIDED in answers else exits.FINE
