"""`jissoku explain`: causes of a target's cost and latency, with evidence."""

from pathlib import Path
from typing import Any

import click

from jissoku import report
from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.tune import exit_code, tuning_config
from jissoku.errors import InputError
from jissoku.measure.explain import ExplainConfig, answering, explain as look
from jissoku.measure.knob_changes import tuning_target
from jissoku.measure.reports import write_explanation
from jissoku.measure.selection import (
    floor_for,
    folder_for,
    prepare_external,
    prepare_recipe,
    workload,
)
from jissoku.measure.tune import TuningTarget, tune
from jissoku.model.explanation import Explanation
from jissoku.model.updated import updated
from jissoku.report.explanation import to_json, to_text
from jissoku.request import ExplanationRequest, asking
from jissoku.targets import catalogue
from jissoku.targets.contract import capability
from jissoku.targets.prepare import PreparedTarget


@click.command()
@asking(ExplanationRequest)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --verify: folder for records, report and diff.",
)
@shared_options.as_json("all observations")
def explain(*, out: Path | None, as_json: bool, **given: Any) -> int:
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
    request = ExplanationRequest(**given)
    prepared, knobs = _prepared(request)
    if request.verify and knobs is None:
        raise InputError(f"--verify needs knobs to switch, and {prepared.name} has none")
    asked = capability(request.path)
    if prepared.capabilities and asked is not None and asked not in prepared.capabilities:
        able = ", ".join(sorted(prepared.capabilities))
        raise InputError(f"{prepared.name} cannot answer {request.path}: its parts are {able}")
    lock_machine()
    explanation = _explained(request, prepared)
    if explanation is None:
        return exit_codes.INTERRUPTED
    if knobs is not None:
        knobs = answering(knobs, explanation)
        explanation = _with_changes(explanation, knobs, request)
    folder = out or folder_for("explain", explanation.target)
    write_explanation(folder, explanation)
    _note(f"Record: {folder}")
    if not as_json:
        click.echo(to_text(explanation), nl=False)
    seen = explanation.observations
    is_blind = all(one is None for one in (seen.wire, seen.syscalls, seen.load, seen.profile))
    code = exit_codes.UNDECIDED if is_blind else exit_codes.OK
    if request.verify and knobs is not None:
        explanation, code = _verified(request, explanation, knobs, folder, as_json=as_json)
    if as_json:
        click.echo(to_json(explanation), nl=False)
    return code


def _explained(request: ExplanationRequest, prepared: PreparedTarget) -> Explanation | None:
    config = ExplainConfig(
        prepared=prepared,
        workload=workload(request),
        floor=floor_for(request.path),
        seed=request.seed,
        probes=frozenset(request.probe),
    )
    return look(config, _note)


def _with_changes(
    explanation: Explanation, knobs: TuningTarget, request: ExplanationRequest
) -> Explanation:
    """The diff applies to the user's configuration as written, not as run here."""
    if request.config is None:
        return explanation
    names = tuple(knob.name for knob in knobs.knobs)
    changes = knobs.diff(names).replace(" (proven)\n", "\n") if names else ""
    return updated(explanation, changes=changes)


def _verified(
    request: ExplanationRequest,
    explanation: Explanation,
    knobs: TuningTarget,
    folder: Path,
    *,
    as_json: bool,
) -> tuple[Explanation, int]:
    """Tests the knobs for the causes, and prints the results."""
    if not knobs.knobs:
        _note("No knob addresses the causes found: there is nothing to verify.")
        return explanation, exit_codes.OK
    config = tuning_config(request, folder)
    with ProgressDisplay() as show:
        for knob in knobs.knobs:
            causes = sorted(set(knob.for_findings) & {one.name for one in explanation.findings})
            show.note(f"To be proven: {knob.name}, against {' and '.join(causes)}.")
        found = tune(knobs, config, show)
    proven = updated(explanation, verification=found)
    write_explanation(config.folder, proven)
    if not as_json:
        click.echo(f"\n{report.tuning_to_text(found)}\nRecords and report: {config.folder}")
    return proven, exit_code(found)


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _prepared(request: ExplanationRequest) -> tuple[PreparedTarget, TuningTarget | None]:
    """The target to explain, and its knobs."""
    given = [word for word in (request.target, request.cmd, request.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if request.config is not None and request.target is None:
        raise InputError("--config is a recipe's: write jissoku explain nginx --config FILE")
    if request.target is None:
        return prepare_external(command_text=request.cmd, url=request.url), None
    recipe = catalogue.get_recipe(catalogue.recipes(request.recipes), request.target)
    if request.config is None and not recipe.knob:
        return prepare_recipe(request.target, request.recipes), None
    knobs = tuning_target(
        recipe,
        recipe.knob,
        config=Path(request.config) if request.config else None,
        listen=request.listen,
    )
    return knobs.prepared(()), knobs
