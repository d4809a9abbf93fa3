"""`jissoku tune`: which knobs reduce cost, with intervals."""

from pathlib import Path
from typing import Any

import click

from jissoku import report
from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.errors import InputError
from jissoku.measure.comparison import noise_floors
from jissoku.measure.knob_changes import tuning_target
from jissoku.measure.reports import write_tuning
from jissoku.measure.selection import folder_for, seed, workload
from jissoku.measure.tune import TuningConfig, tune as run_tuning
from jissoku.model import Decision, Knob, Mode, Recipe, TuningResult
from jissoku.request import ExplanationRequest, TuningRequest, asking
from jissoku.system import cores
from jissoku.targets import catalogue


@click.command()
@asking(TuningRequest)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records, report and diff. Default: a new one under runs/.",
)
@shared_options.as_json("the result")
@shared_options.quiet
def tune(*, out: Path | None, as_json: bool, quiet: bool, **given: Any) -> int:
    """Test a target's knobs, and report those that reduce its cost.

    Each knob is tested alone, all together, and all but each. A knob is accepted if the interval
    of its effect exceeds the minimum effect, its counter changed as predicted, and the responses
    are unchanged. The accepted knobs together are then compared with the original configuration on
    new blocks, and written as a diff.

    Exit codes: 0 success, 1 failure, 2 bad input, 4 undecided, 130 interrupted.
    """
    request = TuningRequest(**given)
    recipe = catalogue.get_recipe(catalogue.recipes(), request.target)
    chosen = _selected_knobs(recipe, request.knobs)
    lock_machine()
    with ProgressDisplay(quiet=quiet or as_json) as show:
        tuned = tuning_target(
            recipe,
            chosen,
            config=Path(request.config) if request.config else None,
            listen=request.listen,
        )
        config = tuning_config(request, out)
        show.note(f"Seed {config.seed}; records go to {config.folder}.")
        found = run_tuning(tuned, config, show)
    return _publish(found, config.folder, as_json=as_json)


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


def tuning_config(request: TuningRequest | ExplanationRequest, folder: Path | None) -> TuningConfig:
    """The configuration of a tuning; `folder` None: a new one."""
    mode = Mode.STANDARD if request.standard else Mode.QUICK
    return TuningConfig(
        request=request,
        workload=workload(request),
        mode=mode,
        plan=SAMPLING_PLANS[mode],
        seed=seed(request.seed),
        cores=cores.partition_cores(cores.available_cores()),
        folder=folder or folder_for("tune", request.target or ""),
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
