"""`jissoku explain`: causes of a target's cost and latency, with evidence."""

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
from jissoku.cli.tune import exit_code
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.errors import InputError
from jissoku.model import ConnectionMode, Mode, Workload
from jissoku.model.finding import Explanation
from jissoku.model.updated import updated
from jissoku.pipeline.compare_config import noise_floors
from jissoku.pipeline.explain import PROBES, ExplainConfig, answering, explain as look
from jissoku.pipeline.knob_changes import tuning_target
from jissoku.pipeline.reports import write_explanation
from jissoku.pipeline.selection import floor_for, folder_for, prepare_external, prepare_recipe
from jissoku.pipeline.tune import tune
from jissoku.pipeline.tuning_target import TuningConfig, TuningTarget
from jissoku.report.explanation import to_json, to_text
from jissoku.system import cores
from jissoku.targets import catalogue
from jissoku.targets.contract import capability
from jissoku.targets.prepare import PreparedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Values of the command line; fields are named as the options."""

    target: str | None
    cmd: str | None
    url: str | None
    recipes: tuple[Path, ...]
    config: Path | None
    listen: str
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    keepalive: bool
    rate: int | None
    seed: int
    probe: tuple[str, ...]
    verify: bool
    standard: bool
    out: Path | None
    as_json: bool


@click.command()
@click.argument("target", required=False)
@click.option(
    "--cmd", metavar="NAME=COMMAND", help="Start a command; {port} is replaced by its port."
)
@click.option("--url", metavar="NAME=URL", help="Explain an external server at this URL.")
@shared_options.recipes
@shared_options.config
@shared_options.listen
@shared_options.path
@shared_options.header
@shared_options.connections("Connections of the load.")
@shared_options.keepalive
@click.option(
    "-R",
    "--rate",
    type=Rate(),
    help="Request rate in requests per second. Default: closed loop.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seed of all random choices (ports, orders).",
)
@click.option(
    "--probe",
    multiple=True,
    type=click.Choice(PROBES),
    help="Only observe this; may be repeated. Default: everything.",
)
@click.option(
    "--verify", is_flag=True, help="Test the knobs for the causes found, and report which pay."
)
@click.option(
    "--standard",
    is_flag=True,
    help="With --verify: 10 to 40 blocks with windows of 2 s, instead of nine of 0.4 s.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --verify: folder for records, report and diff.",
)
@shared_options.as_json("all observations")
def explain(**given: Any) -> int:
    """Find the causes of a target's CPU cost and latency.

    TARGET is the name of a recipe, see `jissoku targets`; --cmd and --url explain any server. Its
    responses, system calls, threads and memory are observed from outside, each on a separate
    start, in about half a minute. Every cause is reported with its evidence, and with what would
    falsify it.

    With --verify, the recipe's knobs for the causes found are tested: each alone, all together,
    and all but each. A knob is accepted if the interval of its effect exceeds the minimum effect,
    its counter changed as predicted, and the responses are unchanged. The accepted knobs are
    confirmed together on new blocks, and written as a diff.

    Exit codes: 0 success, 1 the target failed, 2 bad input, 4 nothing could be observed or
    decided, 130 interrupted.
    """
    options = ExplainOptions(**given)
    prepared, knobs = _prepared(options)
    if options.verify and knobs is None:
        raise InputError(f"--verify needs knobs to switch, and {prepared.name} has none")
    asked = capability(options.path)
    if prepared.capabilities and asked is not None and asked not in prepared.capabilities:
        able = ", ".join(sorted(prepared.capabilities))
        raise InputError(f"{prepared.name} cannot answer {options.path}: its parts are {able}")
    lock_machine()
    explanation = _explained(options, prepared)
    if explanation is None:
        return exit_codes.INTERRUPTED
    if knobs is not None:
        knobs = answering(knobs, explanation)
        explanation = _with_changes(explanation, knobs, options)
    folder = options.out or folder_for("explain", explanation.target)
    write_explanation(folder, explanation)
    _note(f"Record: {folder}")
    if not options.as_json:
        click.echo(to_text(explanation), nl=False)
    seen = explanation.observations
    is_blind = all(one is None for one in (seen.wire, seen.syscalls, seen.load, seen.profile))
    code = exit_codes.UNDECIDED if is_blind else exit_codes.OK
    if options.verify and knobs is not None:
        explanation, code = _verified(options, explanation, knobs, folder)
    if options.as_json:
        click.echo(to_json(explanation), nl=False)
    return code


def _explained(options: ExplainOptions, prepared: PreparedTarget) -> Explanation | None:
    config = ExplainConfig(
        prepared=prepared,
        workload=_workload(options),
        floor=floor_for(options.path),
        seed=options.seed,
        probes=frozenset(options.probe),
    )
    return look(config, _note)


def _workload(options: ExplainOptions) -> Workload:
    return Workload(
        path=options.path,
        headers=options.header,
        connections=options.connections,
        rate_rps=options.rate,
        connection_mode=ConnectionMode.KEEP_ALIVE if options.keepalive else ConnectionMode.CLOSE,
    )


def _with_changes(
    explanation: Explanation, knobs: TuningTarget, options: ExplainOptions
) -> Explanation:
    """The diff applies to the user's configuration as written, not as run here."""
    if options.config is None:
        return explanation
    names = tuple(knob.name for knob in knobs.knobs)
    changes = knobs.diff(names).replace(" (proven)\n", "\n") if names else ""
    return updated(explanation, changes=changes)


def _verified(
    options: ExplainOptions, explanation: Explanation, knobs: TuningTarget, folder: Path
) -> tuple[Explanation, int]:
    """Tests the knobs for the causes, and prints the results."""
    if not knobs.knobs:
        _note("No knob addresses the causes found: there is nothing to verify.")
        return explanation, exit_codes.OK
    mode = Mode.STANDARD if options.standard else Mode.QUICK
    config = TuningConfig(
        workload=_workload(options),
        mode=mode,
        plan=SAMPLING_PLANS[mode],
        seed=options.seed,
        cores=cores.partition_cores(cores.available_cores()),
        folder=folder,
        version=version_line(),
        noise_floors=noise_floors(),
    )
    with ProgressDisplay() as show:
        for knob in knobs.knobs:
            causes = sorted(set(knob.for_findings) & {one.name for one in explanation.findings})
            show.note(f"To be proven: {knob.name}, against {' and '.join(causes)}.")
        found = tune(knobs, config, show)
    proven = updated(explanation, verification=found)
    write_explanation(config.folder, proven)
    if not options.as_json:
        click.echo(f"\n{report.tuning_to_text(found)}\nRecords and report: {config.folder}")
    return proven, exit_code(found)


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _prepared(options: ExplainOptions) -> tuple[PreparedTarget, TuningTarget | None]:
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.config is not None and options.target is None:
        raise InputError("--config is a recipe's: write jissoku explain nginx --config FILE")
    if options.target is None:
        return prepare_external(command_text=options.cmd, url=options.url), None
    recipe = catalogue.get_recipe(catalogue.recipes(options.recipes), options.target)
    if options.config is None and not recipe.knob:
        return prepare_recipe(options.target, options.recipes), None
    knobs = tuning_target(recipe, recipe.knob, config=options.config, listen=options.listen)
    return knobs.prepared(()), knobs
