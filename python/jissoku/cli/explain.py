"""`jissoku explain`: why a target is as fast as it is, with evidence."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku.cli import exits
from jissoku.cli.contestants import FLOOR, place
from jissoku.errors import InputError, TargetError
from jissoku.model import Missing, Workload
from jissoku.pipeline.explain import Question, explain as look
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
    path: str
    connections: int
    rate: int | None
    seed: int
    as_json: bool


@click.command()
@click.argument("target", required=False)
@click.option("--cmd", metavar="NAME=COMMAND", help="Start a command; {port} is where it listens.")
@click.option("--url", metavar="NAME=URL", help="Look at a server that runs already.")
@click.option(
    "--recipes",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder with recipes of your own.",
)
@click.option("--path", default="/", show_default=True, help="What is asked for.")
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
@click.option("--json", "as_json", is_flag=True, help="Print all that was seen, as JSON.")
def explain(**given: Any) -> int:
    """Find out why a target is as fast as it is.

    TARGET is a recipe's name, see `jissoku targets`; --cmd and --url take anybody's server. Its
    answers, system calls, threads and memory are looked at from outside, each on a start of its
    own, which takes about half a minute. Every cause comes with its evidence, and with what would
    refute it.

    Exit codes: 0 the target was looked at, 1 it failed, 2 bad input, 4 nothing could be looked at,
    130 interrupted.
    """
    options = Options(**given)
    if not options.path.startswith("/"):
        raise InputError(f"--path {options.path!r}: write it with its first slash, such as /42")
    where = place()
    prepared = _prepared(options, where)
    asked = part(options.path)
    if prepared.parts and asked is not None and asked not in prepared.parts:
        able = ", ".join(sorted(prepared.parts))
        raise InputError(f"{prepared.name} cannot answer {options.path}: its parts are {able}")
    question = Question(
        prepared=prepared,
        workload=Workload(
            path=options.path, connections=options.connections, rate_rps=options.rate
        ),
        floor=_floor(options, where),
        seed=options.seed,
    )
    try:
        explanation = look(question, _note)
    except TargetError as error:
        detail = f"\n{error.stderr}" if error.stderr else ""
        raise TargetError(f"{error}{detail}") from error
    if explanation is None:
        return exits.INTERRUPTED
    click.echo((to_json if options.as_json else to_text)(explanation), nl=False)
    seen = explanation.observed
    is_blind = seen.wire is None and seen.calls is None and seen.load is None
    return exits.UNDECIDED if is_blind else exits.FINE


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _prepared(options: Options, where: Place) -> Prepared:
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.url is not None:
        return command.from_url(options.url)
    if options.cmd is not None:
        return command.from_command(options.cmd, where)
    return _recipe(given[0], options, where)


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
