"""Verbs that explain a target's cost: `jissoku explain`, `jissoku profile` and `jissoku tune`."""

import difflib
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from jissoku import report
from jissoku.cli.frame import ExitCode, exit_code, print_message, print_text, version_line
from jissoku.cli.progress import ProgressDisplay, lock_machine
from jissoku.cli.reports import write_profile_report
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.errors import HostLost, InputError, JissokuError
from jissoku.fleet.connecting import host_of
from jissoku.measure import selection
from jissoku.measure.comparison import CompareConfig, noise_floors
from jissoku.measure.explain import ExplainConfig, answering, explain as look
from jissoku.measure.host import ServerHost, required
from jissoku.measure.knob_changes import TuningTarget
from jissoku.measure.profile import TARGETS_MAX, ProfileConfig, profile as run_profile
from jissoku.measure.reports import problem_of, write_explanation, write_tuning
from jissoku.measure.tune import tune as run_tuning
from jissoku.model import (
    Decision,
    Knob,
    Mode,
    Recipe,
    TuningResult,
    join_names,
    updated,
)
from jissoku.model.explanation import Explanation
from jissoku.records import write_profiles
from jissoku.report.explanation import causes_text, explanation_to_json, explanation_to_text
from jissoku.request import ExplanationRequest, ProfileRequest, TuningRequest
from jissoku.request.options import verb
from jissoku.request.shared import AsJson, Out, Output, output
from jissoku.targets import catalogue
from jissoku.targets.contract import capability
from jissoku.targets.prepare import PreparedTarget


@verb(
    TuningRequest,
    output("the result", "Directory for records, report and diff. Default: a new one under runs/."),
)
def tune(request: TuningRequest, output: Output) -> int:
    """Test a target's knobs, and report those that reduce its cost.

    First it is counted what a request does with each knob: one that changes nothing is not timed.
    The others are tested alone until each is decided, and those that pay also left out of all. A
    knob is accepted if the interval of its effect exceeds the minimum effect, its counter changed
    as predicted, and the responses are unchanged. The accepted knobs together are then compared
    with the original configuration on new blocks, and written as a diff.

    Exit codes: 0 something was proven or all was decided, 1 failure, 2 bad input, 4 undecided, 130
    interrupted.
    """
    selection.check_server_host(request)
    recipe = catalogue.get_recipe(catalogue.recipes(), request.target)
    chosen = _selected_knobs(recipe, request.knobs)
    with host_of(request, version_line()) as host:
        tuned = _with_knobs(request, recipe, required(host, recipe), chosen, host)
        lock_machine()
        with ProgressDisplay(quiet=output.is_quiet) as show:
            config = tuning_config(request, output.out, host)
            show.note(f"Seed {config.seed}; records go to {config.folder}.")
            found = run_tuning(tuned, config, show)
    unwritten = problem_of(lambda: write_tuning(config.folder, found))
    if output.as_json:
        click.echo(report.tuning_to_json(found), nl=False)
    else:
        print_text(f"\n{report.tuning_to_text(found, has_sandbox=False)}")
    return _kept(tuning_code(found), host.lost, unwritten)


def _kept(code: int, *problems: str) -> int:
    """The exit code, or 1 if the result, which was printed, is a part, or could not be written."""
    found = [problem for problem in problems if problem]
    for problem in found:
        print_message(f"{problem}.")
    return ExitCode.FAILED if found else code


def _with_knobs(
    request: TuningRequest | ExplanationRequest,
    recipe: Recipe,
    base: PreparedTarget,
    knobs: tuple[Knob, ...],
    host: ServerHost,
) -> TuningTarget:
    """A recipe's target with these knobs, or the user's configuration with them."""
    if request.config is None:
        return host.tuning_target(base, recipe, knobs)
    return host.tuning_target_of_file(base, recipe, knobs, Path(request.config), request.listen)


def _selected_knobs(recipe: Recipe, names: str) -> tuple[Knob, ...]:
    if not names:
        return recipe.knob
    known = {knob.name: knob for knob in recipe.knob}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            near = join_names(difflib.get_close_matches(name, known, n=3, cutoff=0.4))
            hint = f"perhaps {near}" if near else f"it has {len(known)}"
            raise InputError(
                f"{recipe.name} has no knob {name!r}: {hint}; a tuning without --knobs names all"
            )
    return tuple(known[name] for name in dict.fromkeys(wanted))


def tuning_config(
    request: TuningRequest | ExplanationRequest, folder: Path | None, host: ServerHost
) -> CompareConfig:
    """The configuration of all campaigns of a tuning; `folder` None: a new one."""
    mode = Mode.STANDARD if request.standard else Mode.QUICK
    return CompareConfig(
        arms_prepared=(),
        request=request,
        workload=selection.workload(request),
        mode=mode,
        plan=SAMPLING_PLANS[mode],
        seed=selection.seed(request.seed),
        cores=host.assign_cores(None, None),
        folder=folder or selection.folder_for("tune", request.target or ""),
        version=version_line(),
        one_load=True,
        noise_floors=noise_floors() if host.is_local else {},
        verb="tune",
        host=host,
    )


def tuning_code(found: TuningResult) -> int:
    """Success if something was proven, or if all was decided."""
    decisions = {result.decision for result in found.results}
    open_decisions = {Decision.UNDECIDED, Decision.ACCEPTED, Decision.COUNTER_UNAVAILABLE}
    return exit_code(
        is_finished=found.finished,
        is_failed=decisions == {Decision.BROKEN},
        is_undecided=not found.proven and bool(decisions & open_decisions),
    )


class ExplanationOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Output of the command.

    Attributes:
        out: With --verify: folder for records, report and diff.
        as_json: Print all observations as JSON.
    """

    out: Out = None
    as_json: AsJson = False


@verb(ExplanationRequest, ExplanationOutput)
def explain(request: ExplanationRequest, output: ExplanationOutput) -> int:
    """Find the causes of a target's CPU cost and latency.

    TARGET is the name of a recipe, see `jissoku targets`; --cmd and --url explain any server, and
    --config a configuration of your own of nginx or HAProxy. Its
    responses, system calls, threads and memory are observed from outside, each on a separate
    start, in about half a minute. Every cause is reported with its evidence, and with what would
    falsify it.

    With --verify, the recipe's knobs for the causes found are tested as `jissoku tune` does (of a
    command that starts gunicorn, uvicorn, Node or a program of Go, those of that server), and the
    accepted ones are written as a diff.

    Exit codes: 0 success, with --verify if something was proven or all was decided, 1 the target
    failed, or its host was lost (what was observed before is reported), 2 bad input, 4 nothing
    could be observed or proven, 130 interrupted.
    """
    selection.check_server_host(request)
    with host_of(request, version_line()) as host:
        return _explain(request, output, host)


def _explain(request: ExplanationRequest, output: ExplanationOutput, host: ServerHost) -> int:
    prepared, knobs = _prepared(request, host)
    if request.verify and knobs is None:
        raise InputError(f"--verify needs knobs to switch, and {prepared.name} has none")
    asked = capability(request.path)
    if prepared.capabilities and asked is not None and asked not in prepared.capabilities:
        able = ", ".join(sorted(prepared.capabilities))
        raise InputError(f"{prepared.name} cannot answer {request.path}: its parts are {able}")
    lock_machine()
    config = ExplainConfig(
        prepared=prepared,
        workload=selection.workload(request),
        floor=selection.floor_for(request.path, host),
        seed=request.seed,
        probes=frozenset(request.probe),
        time_limit_s=request.time_limit,
        request=request,
        host=host,
    )
    for remark in host.remarks():
        _note(remark)
    explanation = look(config, _note)
    if knobs is not None:
        knobs = answering(knobs, explanation)
        explanation = updated(explanation, changes=_suggested(knobs))
    folder = output.out or selection.folder_for("explain", explanation.target)
    unwritten = problem_of(lambda: write_explanation(folder, explanation))
    _note(f"Record: {folder}")
    if not output.as_json:
        print_text(explanation_to_text(explanation))
        print_text(f"\n{causes_text(explanation)}\n")
    seen = explanation.observations
    is_blind = all(one is None for one in (seen.wire, seen.syscalls, seen.load, seen.profile))
    code: int = exit_code(is_finished=explanation.finished, is_undecided=is_blind)
    if request.verify and knobs is not None and explanation.finished:
        tuning = tuning_config(request, folder, host)
        explanation, code = _verified(explanation, knobs, tuning, as_json=output.as_json)
        unwritten = problem_of(lambda: write_explanation(folder, explanation))
    if output.as_json:
        click.echo(explanation_to_json(explanation), nl=False)
    return _kept(code, host.lost, unwritten)


def _suggested(knobs: TuningTarget) -> str:
    """The diff of all knobs, of the user's configuration as written, not as run here.

    Empty without any, and if the host of the target, which makes the changes, is lost.
    """
    names = tuple(knob.name for knob in knobs.knobs)
    with suppress(HostLost):
        return knobs.diff(names).replace(" (proven)\n", "\n") if names else ""
    return ""


def _verified(
    explanation: Explanation, knobs: TuningTarget, config: CompareConfig, *, as_json: bool
) -> tuple[Explanation, int]:
    if not knobs.knobs:
        _note("No knob addresses the causes found: there is nothing to verify.")
        return explanation, ExitCode.OK
    with ProgressDisplay() as show:
        for knob in knobs.knobs:
            causes = sorted(set(knob.for_findings) & {one.name for one in explanation.findings})
            show.note(f"To be proven: {knob.name}, against {' and '.join(causes)}.")
        found = run_tuning(knobs, config, show)
    if not as_json:
        print_text(f"\n{report.tuning_to_text(found, has_sandbox=False)}")
    return updated(explanation, verification=found), tuning_code(found)


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _prepared(
    request: ExplanationRequest, host: ServerHost
) -> tuple[PreparedTarget, TuningTarget | None]:
    given = [word for word in (request.target, request.cmd, request.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if request.config is not None and request.target is None:
        raise InputError("--config is a recipe's: write jissoku explain nginx --config FILE")
    recipes = catalogue.recipes(request.recipes)
    if request.url is not None:
        return host.prepare_url(request.url), None
    if request.cmd is not None:
        base = host.prepare_command(request.cmd)
        return base, host.tuning_target_of_command(base, recipes)
    recipe = catalogue.get_recipe(recipes, request.target or "")
    base = required(host, recipe)
    if request.config is None and not recipe.knob:
        return base, None
    knobs = _with_knobs(request, recipe, base, recipe.knob, host)
    return knobs.prepared(()), knobs


@verb(ProfileRequest, output("all tables"))
def profile(request: ProfileRequest, output: Output) -> int:
    """Show which functions a target's CPU time per request goes to.

    The target is started, warmed up and sent a fixed rate while its processes are sampled. With two
    targets the difference is broken down too: which functions the second spends more or less in.

    The folder holds the record, a report page, flame graphs (SVG), collapsed stacks and pprof
    profiles; `jissoku report` rebuilds them from the record.

    Exit codes: 0 fine, 1 a target failed or nothing can be sampled, 2 bad input, 130 interrupted
    (the report is of the samples until then).
    """
    count = len(request.arms) + len(request.cmd) + len(request.url)
    if not 1 <= count <= TARGETS_MAX:
        raise InputError("name one target, or two to be compared, see `jissoku targets`")
    if request.websocket and not request.keepalive:
        raise InputError("--websocket and --no-keepalive exclude each other")
    selection.check_server_host(request)
    lock_machine()
    with (
        ProgressDisplay(quiet=output.is_quiet) as show,
        host_of(request, version_line()) as host,
    ):
        field = selection.prepare_targets(request, show, host=host)
        config = ProfileConfig(
            arms=field.arms,
            workload=selection.workload(request),
            cores=host.assign_cores(request.server_cores, request.generator_cores),
            window_ns=round(request.duration * 1e9),
            seed=selection.seed(request.seed),
            folder=output.out
            or selection.folder_for("profile", *(one.arm.name for one in field.arms)),
            version=version_line(),
            frequency=request.frequency,
            request=request,
            host=host,
        )
        show.note(f"Records go to {config.folder}.")
        found, finished = run_profile(config, show)
    if not found and host.lost:
        raise JissokuError(host.lost)
    if not found:
        _note("Interrupted: there is nothing to report yet.")
        return ExitCode.INTERRUPTED
    unwritten = problem_of(lambda: write_profiles(config.folder, found))
    code = write_profile_report(
        config.folder, as_json=output.as_json, sort=request.sort, profiles=found
    )
    lost = "" if finished else host.lost
    return _kept(code if finished else ExitCode.INTERRUPTED, lost, unwritten)
