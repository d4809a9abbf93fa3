"""`jissoku tune`: which knobs reduce cost, with intervals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku import report
from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.param_types import Rate
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.errors import InputError
from jissoku.model import Decision, Knob, Mode, Recipe, TuningResult, Workload
from jissoku.pipeline.compare_config import noise_floors
from jissoku.pipeline.knob_changes import tuning_target
from jissoku.pipeline.reports import write_tuning
from jissoku.pipeline.selection import folder_for
from jissoku.pipeline.tune import tune as run_tuning
from jissoku.pipeline.tuning_target import TuningConfig
from jissoku.system import cores
from jissoku.targets import catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Values of the command line; fields are named as the options."""

    target: str
    config: Path | None
    knobs: str
    listen: str
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    rate: int | None
    standard: bool
    seed: int
    out: Path | None
    as_json: bool
    quiet: bool


@click.command()
@click.argument("target")
@shared_options.config
@click.option(
    "--knobs",
    default="",
    metavar="A,B",
    help="Knobs to test, comma-separated. Default: all of the recipe.",
)
@shared_options.listen
@shared_options.path
@shared_options.header
@shared_options.connections("Connections per target.")
@click.option(
    "-R",
    "--rate",
    type=Rate(),
    help="Total request rate in requests per second. Default: chosen by a pilot run.",
)
@click.option(
    "--standard",
    is_flag=True,
    help="10 to 40 blocks with windows of 2 s, instead of nine with windows of 0.4 s.",
)
@shared_options.seed
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records, report and diff. Default: a new one under runs/.",
)
@shared_options.as_json("the result")
@shared_options.quiet
def tune(**given: Any) -> int:
    """Test a target's knobs, and report those that reduce its cost.

    Each knob is tested alone, all together, and all but each. A knob is accepted if the interval
    of its effect exceeds the minimum effect, its counter changed as predicted, and the responses
    are unchanged. The accepted knobs together are then compared with the original configuration on
    new blocks, and written as a diff.

    Exit codes: 0 success, 1 failure, 2 bad input, 4 undecided, 130 interrupted.
    """
    options = TuneOptions(**given)
    recipe = catalogue.get_recipe(catalogue.recipes(), options.target)
    chosen = _selected_knobs(recipe, options.knobs)
    lock_machine()
    with ProgressDisplay(quiet=options.quiet or options.as_json) as show:
        tuned = tuning_target(recipe, chosen, config=options.config, listen=options.listen)
        config = _tuning_config(options)
        show.note(f"Seed {config.seed}; records go to {config.folder}.")
        found = run_tuning(tuned, config, show)
    return _publish(found, config.folder, as_json=options.as_json)


def _selected_knobs(recipe: Recipe, names: str) -> tuple[Knob, ...]:
    if not names:
        return recipe.knob
    known = {knob.name: knob for knob in recipe.knob}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise InputError(
                f"{recipe.name} has no knob {name!r}; it has {', '.join(known) or 'none'}"
            )
    return tuple(known[name] for name in dict.fromkeys(wanted))


def _tuning_config(options: TuneOptions) -> TuningConfig:
    mode = Mode.STANDARD if options.standard else Mode.QUICK
    return TuningConfig(
        workload=Workload(
            path=options.path,
            headers=options.header,
            connections=options.connections,
            rate_rps=options.rate,
        ),
        mode=mode,
        plan=SAMPLING_PLANS[mode],
        seed=options.seed,
        cores=cores.partition_cores(cores.available_cores()),
        folder=options.out or folder_for("tune", options.target),
        version=version_line(),
        noise_floors=noise_floors(),
    )


def _publish(found: TuningResult, folder: Path, *, as_json: bool) -> int:
    write_tuning(folder, found)
    click.echo(report.tuning_to_json(found) if as_json else report.tuning_to_text(found), nl=False)
    if not as_json:
        click.echo(f"\nRecords and report: {folder}")
    return exit_code(found)


def exit_code(found: TuningResult) -> int:
    if not found.finished:
        return exit_codes.INTERRUPTED
    decisions = [result.decision for result in found.results]
    if decisions and all(decision is Decision.BROKEN for decision in decisions):
        return exit_codes.FAILED
    if Decision.UNDECIDED in decisions or (Decision.ACCEPTED in decisions and not found.proven):
        return exit_codes.UNDECIDED
    return exit_codes.OK
