"""`jissoku conformance`: HTTP/1.1, clause by clause, against any server."""

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exits, flags
from jissoku.cli.contestants import place
from jissoku.conformance import Case, Result, Sending, Verdict, groups, read_all, totals
from jissoku.conformance.case import OURS
from jissoku.errors import InputError, TargetError
from jissoku.model import Missing
from jissoku.pipeline.conformance import Examination, examine
from jissoku.targets import catalogue, command
from jissoku.targets.prepare import Prepared, prepare

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.LENIENT: "",
    Verdict.STRICTER: "",
    Verdict.SHORT: "yellow",
    Verdict.BROKEN: "red",
    Verdict.UNDECIDED: "magenta",
}

# Listed without being asked for; the others have failed nothing.
TOLD = {Verdict.SHORT, Verdict.BROKEN, Verdict.UNDECIDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said; the names are the options'."""

    target: str | None
    cmd: str | None
    url: str | None
    recipes: tuple[Path, ...]
    case: tuple[str, ...]
    cases: Path
    sending: Sending
    show_all: bool
    as_json: bool


@click.command()
@click.argument("target", required=False)
@click.option("--cmd", metavar="NAME=COMMAND", help="Start a command; {port} is where it listens.")
@click.option("--url", metavar="NAME=URL", help="Ask a server that runs already.")
@flags.recipes
@click.option("--case", multiple=True, metavar="GLOB", help="Only cases of such a name or clause.")
@click.option(
    "--cases",
    default=OURS,
    show_default="ours",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder with cases of your own.",
)
@click.option(
    "--splits",
    "sending",
    flag_value=Sending.SPLITS,
    type=Sending,
    help="Send each case again, cut in two at a handful of places.",
)
@click.option(
    "--bytes",
    "sending",
    flag_value=Sending.BYTES,
    type=Sending,
    help="Send each case again, byte by byte.",
)
@click.option("--all", "show_all", is_flag=True, help="List every case, not only what falls short.")
@click.option("--json", "as_json", is_flag=True, help="Print every case as JSON.")
def conformance(**given: Any) -> int:
    """Hold a server to HTTP/1.1, clause by clause.

    TARGET is a recipe's name, see `jissoku targets`; --cmd and --url take anybody's server. Where
    the standard leaves a choice, a server that differs from ours is called lenient or stricter, and
    has failed nothing.

    Exit codes: 0 no MUST is broken, 1 the target failed, 2 bad input, 3 a MUST is broken,
    4 undecided, 130 interrupted.
    """
    given["sending"] = given["sending"] or Sending.WHOLE
    options = Options(**given)
    cases = _chosen(read_all(options.cases), options.case)
    prepared = _prepared(options)
    results: list[Result] = []
    asked = Examination(prepared=prepared, cases=cases, sending=options.sending)
    finished = examine(asked, results)
    if options.as_json:
        click.echo(_json(prepared, results))
    else:
        _print(prepared, results, show_all=options.show_all)
    return _code(results) if finished else exits.INTERRUPTED


def _chosen(cases: Sequence[Case], globs: Sequence[str]) -> list[Case]:
    chosen = [
        case
        for case in cases
        if not globs
        or any(
            fnmatch.fnmatchcase(case.name, glob) or fnmatch.fnmatchcase(case.clause, glob)
            for glob in globs
        )
    ]
    if not chosen:
        raise InputError(f"--case {' '.join(globs)}: no case has such a name or clause")
    return chosen


def _prepared(options: Options) -> Prepared:
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.url is not None:
        return command.from_url(options.url)
    where = place()
    if options.cmd is not None:
        return command.from_command(options.cmd, where)
    recipe = catalogue.pick(catalogue.recipes(options.recipes), given[0])
    try:
        found = prepare(recipe, where)
    except TargetError as error:
        detail = f"\n{error.stderr}" if error.stderr else ""
        raise TargetError(f"{error}{detail}") from error
    if isinstance(found, Missing):
        raise InputError(found.sentence)
    return found


def _code(results: Sequence[Result]) -> int:
    counts = totals(results)
    if counts[Verdict.BROKEN]:
        return exits.BOUND_BROKEN
    return exits.UNDECIDED if counts[Verdict.UNDECIDED] else exits.FINE


def _print(prepared: Prepared, results: Sequence[Result], *, show_all: bool) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("RFC")
    for verdict in Verdict:
        table.add_column(verdict, justify="right")
    for group in groups(results):
        table.add_row(group.title, *_cells(group.counts))
    table.add_section()
    table.add_row("all", *_cells(totals(results)), style="bold")
    console.print(f"{prepared.name} ({prepared.version}), {len(results)} cases\n", markup=False)
    console.print(table)
    for verdict in reversed(Verdict):
        for result in results if show_all or verdict in TOLD else ():
            if result.judgement.verdict is verdict:
                _tell(console, result)


def _cells(counts: dict[Verdict, int]) -> list[str]:
    return [
        f"[{STYLES[verdict]}]{count}[/]" if count and STYLES[verdict] else str(count or "")
        for verdict in Verdict
        for count in [counts[verdict]]
    ]


def _tell(console: Console, result: Result) -> None:
    case, judgement = result.case, result.judgement
    style = STYLES[judgement.verdict]
    console.print(f"\n{judgement.verdict}: {case.name}", style=style, markup=False, soft_wrap=True)
    asked = "our own choice" if case.level == "choice" else case.level.upper()
    tail = f": {judgement.reason}" if judgement.reason else ""
    console.print(f"  {case.clause}, {asked}{tail}", markup=False, soft_wrap=True)


def _json(prepared: Prepared, results: Sequence[Result]) -> str:
    counts = totals(results)
    return json.dumps(
        {
            "target": prepared.name,
            "version": prepared.version,
            "totals": {verdict: counts[verdict] for verdict in Verdict},
            "cases": [
                {
                    "name": result.case.name,
                    "group": result.case.group,
                    "clause": result.case.clause,
                    "level": result.case.level,
                    "verdict": result.judgement.verdict,
                    "reason": result.judgement.reason,
                }
                for result in results
            ],
        },
        indent=2,
    )
