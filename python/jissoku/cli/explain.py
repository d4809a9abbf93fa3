"""`jissoku explain`: why a target is as fast as it is, with evidence."""

import dataclasses
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku import report
from jissoku.cli import exits, flags
from jissoku.cli.contestants import FLOOR, place
from jissoku.cli.progress import Show
from jissoku.cli.publish import write
from jissoku.cli.subjects import subject
from jissoku.cli.tune import exit_code
from jissoku.cli.version import version_line
from jissoku.design.mode import EFFORTS
from jissoku.errors import InputError, TargetError
from jissoku.model import Missing, Mode, Workload
from jissoku.model.finding import Explanation
from jissoku.observe import cores
from jissoku.pipeline.explain import Question, explain as look
from jissoku.pipeline.tune import tune
from jissoku.pipeline.tuned import Conduct, Subject
from jissoku.report.explanation import to_json, to_text
from jissoku.targets import catalogue, command
from jissoku.targets.contract import part
from jissoku.targets.place import Place
from jissoku.targets.prepare import Prepared, prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said; the names are the options'."""

    target: str | None
    cmd: str | None
    url: str | None
    recipes: tuple[Path, ...]
    config: Path | None
    listen: str
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    rate: int | None
    seed: int
    verify: bool
    standard: bool
    out: Path | None
    as_json: bool


@click.command()
@click.argument("target", required=False)
@click.option("--cmd", metavar="NAME=COMMAND", help="Start a command; {port} is where it listens.")
@click.option("--url", metavar="NAME=URL", help="Look at a server that runs already.")
@flags.recipes
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A configuration of your own, for nginx; it is read, and never changed.",
)
@click.option(
    "--listen",
    default="",
    metavar="ADDRESS",
    help="The address of the configuration that is asked, as it stands behind its listen.",
)
@click.option("--path", default="/", show_default=True, help="What is asked for.")
@flags.header
@click.option(
    "-c",
    "--connections",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Connections of the load.",
)
@click.option(
    "-R", "--rate", type=click.IntRange(min=1), help="Requests per second; else as many as can be."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides ports and orders.")
@click.option("--verify", is_flag=True, help="Switch what answers the causes, and prove what pays.")
@click.option(
    "--standard",
    is_flag=True,
    help="With --verify: 10 to 40 blocks of three seconds instead of nine of one.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --verify: folder for records, report and diff.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all that was seen, as JSON.")
def explain(**given: Any) -> int:
    """Find out why a target is as fast as it is.

    TARGET is a recipe's name, see `jissoku targets`; --cmd and --url take anybody's server. Its
    answers, system calls, threads and memory are looked at from outside, each on a start of its
    own, which takes about half a minute. Every cause comes with its evidence, and with what would
    refute it.

    With --verify the knobs of the recipe that answer a cause are switched: each alone, all
    together, and all but each, on blocks of their own. One is accepted when its effect's interval
    clears the minimum effect, its counter moved as predicted, and the answers are the same bytes;
    the accepted ones are proven together on fresh blocks, and written out as a diff.

    Exit codes: 0 the target was looked at, 1 it failed, 2 bad input, 4 nothing could be looked at
    or decided, 130 interrupted.
    """
    options = Options(**given)
    if not options.path.startswith("/"):
        raise InputError(f"--path {options.path!r}: write it with its first slash, such as /42")
    where = place()
    prepared, knobs = _prepared(options, where)
    if options.verify and knobs is None:
        raise InputError(f"--verify needs knobs to switch, and {prepared.name} has none")
    asked = part(options.path)
    if prepared.parts and asked is not None and asked not in prepared.parts:
        able = ", ".join(sorted(prepared.parts))
        raise InputError(f"{prepared.name} cannot answer {options.path}: its parts are {able}")
    explanation = _explained(options, prepared, where)
    if explanation is None:
        return exits.INTERRUPTED
    if knobs is not None:
        knobs = _answering(knobs, explanation)
        explanation = _with_changes(explanation, knobs, options)
    if not options.as_json:
        click.echo(to_text(explanation), nl=False)
    seen = explanation.observed
    is_blind = seen.wire is None and seen.calls is None and seen.load is None
    code = exits.UNDECIDED if is_blind else exits.FINE
    if options.verify and knobs is not None:
        explanation, code = _verified(options, explanation, knobs)
    if options.as_json:
        click.echo(to_json(explanation), nl=False)
    return code


def _explained(options: Options, prepared: Prepared, where: Place) -> Explanation | None:
    question = Question(
        prepared=prepared,
        workload=_workload(options),
        floor=_floor(options, where),
        seed=options.seed,
    )
    try:
        return look(question, _note)
    except TargetError as error:
        detail = f"\n{error.stderr}" if error.stderr else ""
        raise TargetError(f"{error}{detail}") from error


def _workload(options: Options) -> Workload:
    return Workload(
        path=options.path,
        headers=options.header,
        connections=options.connections,
        rate_rps=options.rate,
    )


def _answering(knobs: Subject, explanation: Explanation) -> Subject:
    """Those knobs only that answer a cause that was found."""
    causes = {finding.name for finding in explanation.findings}
    chosen = tuple(knob for knob in knobs.knobs if causes & set(knob.against))
    return dataclasses.replace(knobs, knobs=chosen, skipped={})


def _with_changes(explanation: Explanation, knobs: Subject, options: Options) -> Explanation:
    """Somebody's own configuration is changed as it stands, not as it is run here."""
    if options.config is None:
        return explanation
    names = tuple(knob.name for knob in knobs.knobs)
    changes = knobs.diff(names).replace(" (proven)\n", "\n") if names else ""
    return dataclasses.replace(explanation, changes=changes)


def _verified(
    options: Options, explanation: Explanation, knobs: Subject
) -> tuple[Explanation, int]:
    """Tries what answers the causes, and prints what came of it."""
    if not knobs.knobs:
        _note("No knob answers what was found: there is nothing to prove.")
        return explanation, exits.FINE
    mode = Mode.STANDARD if options.standard else Mode.QUICK
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    conduct = Conduct(
        workload=_workload(options),
        mode=mode,
        effort=EFFORTS[mode],
        seed=options.seed,
        cores=cores.split(cores.allowed()),
        folder=options.out or Path("runs") / f"{stamp}-explain-{explanation.target}",
        version=version_line(),
    )
    with Show() as show:
        for knob in knobs.knobs:
            causes = sorted(set(knob.against) & {one.name for one in explanation.findings})
            show.note(f"To be proven: {knob.name}, against {' and '.join(causes)}.")
        found = tune(knobs, conduct, show)
    proven = dataclasses.replace(explanation, proof=found)
    texts = {"explanation.json": to_json(proven), "tuning.txt": report.tuning_to_text(found)}
    if found.diff:
        texts["proven.diff"] = found.diff
    write(conduct.folder, texts)
    if not options.as_json:
        click.echo(f"\n{texts['tuning.txt']}\nRecords and report: {conduct.folder}")
    return proven, exit_code(found)


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _prepared(options: Options, where: Place) -> tuple[Prepared, Subject | None]:
    """What is looked at, and what of it can be switched."""
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.config is not None and options.target is None:
        raise InputError("--config is a recipe's: write jissoku explain nginx --config FILE")
    if options.url is not None:
        return command.from_url(options.url), None
    if options.cmd is not None:
        return command.from_command(options.cmd, where), None
    recipe = catalogue.pick(catalogue.recipes(options.recipes), given[0])
    if options.config is None and not recipe.knob:
        return _recipe(given[0], options, where), None
    knobs = subject(recipe, recipe.knob, config=options.config, listen=options.listen)
    return knobs.prepared(()), knobs


def _recipe(name: str, options: Options, where: Place) -> Prepared:
    recipe = catalogue.pick(catalogue.recipes(options.recipes), name)
    try:
        found = prepare(recipe, where)
    except TargetError as error:
        detail = f"\n{error.stderr}" if error.stderr else ""
        raise TargetError(f"{error}{detail}") from error
    if isinstance(found, Missing):
        raise InputError(found.sentence)
    return found


def _floor(options: Options, where: Place) -> Prepared | None:
    """The floor, where it answers what is asked."""
    recipe = catalogue.recipes()[FLOOR]
    asked = part(options.path)
    if asked is None or asked not in recipe.parts:
        return None
    found = prepare(recipe, where)
    return None if isinstance(found, Missing) else found
