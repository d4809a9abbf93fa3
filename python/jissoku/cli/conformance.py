"""`jissoku conformance`: HTTP/1.1, clause by clause, against any server."""

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.gateway_conformance import (
    GatewayOptions,
    UpstreamTransport,
    gateway_conformance,
)
from jissoku.conformance import (
    Case,
    CaseResult,
    CaseVerdict,
    SplitMode,
    group_totals,
    read_all,
    totals,
)
from jissoku.conformance.case import BUILTIN_CASES
from jissoku.errors import InputError
from jissoku.pipeline.app_conformance import AppCaseResult, run_app_cases
from jissoku.pipeline.conformance import ConformanceConfig, run_cases
from jissoku.pipeline.gateway_counts import GatewayCount
from jissoku.pipeline.selection import prepare_external, prepare_recipe
from jissoku.targets.prepare import PreparedTarget

STYLES = {
    CaseVerdict.PASS: "green",
    CaseVerdict.LENIENT: "",
    CaseVerdict.STRICTER: "",
    CaseVerdict.SHOULD_VIOLATED: "yellow",
    CaseVerdict.MUST_VIOLATED: "red",
    CaseVerdict.UNDECIDED: "magenta",
}

# Verdicts that are listed without --all.
REPORTED = {CaseVerdict.SHOULD_VIOLATED, CaseVerdict.MUST_VIOLATED, CaseVerdict.UNDECIDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceOptions:
    """Values of the command line; fields are named as the options."""

    target: str | None
    cmd: str | None
    url: str | None
    recipes: tuple[Path, ...]
    case: tuple[str, ...]
    cases: Path | None
    through: str | None
    upstream: str
    count: str | None
    amount: int | None
    apps: bool
    sending: SplitMode
    show_all: bool
    as_json: bool


@click.command()
@click.argument("target", required=False)
@click.option(
    "--cmd", metavar="NAME=COMMAND", help="Start a command; {port} is replaced by its port."
)
@click.option("--url", metavar="NAME=URL", help="Test an external server at this URL.")
@click.option(
    "--through",
    metavar="PROXY",
    help="Test this reverse proxy instead: a recipe, with scripted servers behind it.",
)
@click.option(
    "--upstream",
    type=click.Choice([str(kind) for kind in UpstreamTransport]),
    default=str(UpstreamTransport.BOTH),
    show_default=True,
    help="With --through: the sockets of the servers behind the proxy.",
)
@click.option(
    "--count",
    type=click.Choice([str(what) for what in GatewayCount]),
    help="With --through: count failures instead: at closed connections, or with mutated requests.",
)
@click.option(
    "--amount",
    type=click.IntRange(min=1),
    help="With --count: number of requests or restarts. Default: 10000 requests, 50 restarts.",
)
@click.option(
    "--apps",
    is_flag=True,
    help="Test how the server calls an application (WSGI or ASGI), started with that of the cases.",
)
@shared_options.recipes
@click.option(
    "--case",
    multiple=True,
    metavar="GLOB",
    help="Run only the cases whose name or clause matches this pattern.",
)
@click.option(
    "--cases",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory with other cases. Default: the built-in ones.",
)
@click.option(
    "--splits",
    "sending",
    flag_value=SplitMode.SPLITS,
    type=SplitMode,
    help="Send each case again, split in two at some places.",
)
@click.option(
    "--bytes",
    "sending",
    flag_value=SplitMode.BYTES,
    type=SplitMode,
    help="Send each case again, byte by byte.",
)
@click.option("--all", "show_all", is_flag=True, help="List every case, not only failures.")
@shared_options.as_json("every case")
def conformance(**given: Any) -> int:
    """Test a server's conformance to HTTP/1.1.

    TARGET is the name of a recipe, see `jissoku targets`; --cmd and --url test any server. Where
    the standard leaves a choice, a server that differs from jissoku is reported as lenient or
    stricter, which is not a failure.

    Exit codes: 0 no MUST is violated, 1 the target failed, 2 bad input, 3 a MUST is violated,
    4 undecided, 130 interrupted.
    """
    given["sending"] = given["sending"] or SplitMode.WHOLE
    options = ConformanceOptions(**given)
    if options.through is not None:
        return gateway_conformance(_gateway_options(options, options.through))
    if options.apps:
        return _apps_conformance(options)
    cases = _chosen(read_all(options.cases or BUILTIN_CASES), options.case)
    prepared = _prepared(options)
    results: list[CaseResult] = []
    asked = ConformanceConfig(prepared=prepared, cases=cases, sending=options.sending)
    finished = run_cases(asked, results)
    if options.as_json:
        click.echo(_json(prepared, results))
    else:
        _print(prepared, results, show_all=options.show_all)
    return _code(results) if finished else exit_codes.INTERRUPTED


def _apps_conformance(options: ConformanceOptions) -> int:
    prepared = _prepared(options)
    results = [
        result
        for result in run_app_cases(prepared)
        if not options.case or any(fnmatch.fnmatchcase(result.name, glob) for glob in options.case)
    ]
    failed = [result for result in results if result.wrong]
    if options.as_json:
        shown = {"target": prepared.name, "version": prepared.version}
        click.echo(json.dumps({**shown, "cases": [asdict(result) for result in results]}, indent=2))
    else:
        _print_apps(prepared, results if options.show_all else failed)
        click.echo(f"{len(results) - len(failed)} of {len(results)} cases pass")
    return exit_codes.BOUND_EXCEEDED if failed else exit_codes.OK


def _print_apps(prepared: PreparedTarget, results: Sequence[AppCaseResult]) -> None:
    console = Console(highlight=False)
    console.print(f"{prepared.name} ({prepared.version})\n", markup=False)
    for result in results:
        style = "red" if result.wrong else "green"
        verdict = result.wrong or "pass"
        console.print(f"{result.name}: {verdict}", style=style, markup=False, soft_wrap=True)
        console.print(f"  {result.clause}", markup=False, soft_wrap=True)


def _gateway_options(options: ConformanceOptions, target: str) -> GatewayOptions:
    if any(given is not None for given in (options.target, options.cmd, options.url)):
        raise InputError("--through names the target: give no other")
    return GatewayOptions(
        target=target,
        recipes=options.recipes,
        case=options.case,
        cases=options.cases,
        splitting=options.sending,
        upstream=UpstreamTransport(options.upstream),
        count=None if options.count is None else GatewayCount(options.count),
        amount=options.amount,
        show_all=options.show_all,
        as_json=options.as_json,
    )


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
        raise InputError(f"--case {' '.join(globs)}: no case matches")
    return chosen


def _prepared(options: ConformanceOptions) -> PreparedTarget:
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.target is not None:
        return prepare_recipe(options.target, options.recipes)
    return prepare_external(command_text=options.cmd, url=options.url)


def _code(results: Sequence[CaseResult]) -> int:
    counts = totals(results)
    if counts[CaseVerdict.MUST_VIOLATED]:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if counts[CaseVerdict.UNDECIDED] else exit_codes.OK


def _print(prepared: PreparedTarget, results: Sequence[CaseResult], *, show_all: bool) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("RFC")
    for verdict in CaseVerdict:
        table.add_column(verdict, justify="right")
    for group in group_totals(results):
        table.add_row(group.title, *_cells(group.counts))
    table.add_section()
    table.add_row("all", *_cells(totals(results)), style="bold")
    console.print(f"{prepared.name} ({prepared.version}), {len(results)} cases\n", markup=False)
    console.print(table)
    for verdict in reversed(CaseVerdict):
        for result in results if show_all or verdict in REPORTED else ():
            if result.judgement.verdict is verdict:
                _print_case(console, result)


def _cells(counts: dict[CaseVerdict, int]) -> list[str]:
    return [
        f"[{STYLES[verdict]}]{count}[/]" if count and STYLES[verdict] else str(count or "")
        for verdict in CaseVerdict
        for count in [counts[verdict]]
    ]


def _print_case(console: Console, result: CaseResult) -> None:
    case, judgement = result.case, result.judgement
    style = STYLES[judgement.verdict]
    console.print(f"\n{judgement.verdict}: {case.name}", style=style, markup=False, soft_wrap=True)
    asked = "choice of this project" if case.level == "choice" else case.level.upper()
    tail = f": {judgement.reason}" if judgement.reason else ""
    console.print(f"  {case.clause}, {asked}{tail}", markup=False, soft_wrap=True)


def _json(prepared: PreparedTarget, results: Sequence[CaseResult]) -> str:
    counts = totals(results)
    return json.dumps(
        {
            "target": prepared.name,
            "version": prepared.version,
            "totals": {verdict: counts[verdict] for verdict in CaseVerdict},
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
