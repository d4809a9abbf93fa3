"""`jissoku conformance`: HTTP/1.1, clause by clause, against any server."""

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.case_results import choose_cases, print_results
from jissoku.cli.gateway_conformance import (
    GatewayOptions,
    UpstreamTransport,
    gateway_conformance,
)
from jissoku.conformance import CaseVerdict, SplitMode, read_all
from jissoku.conformance.case import BUILTIN_CASES
from jissoku.errors import InputError
from jissoku.model.wording import plural
from jissoku.pipeline.app_conformance import AppCaseResult, run_app_cases
from jissoku.pipeline.conformance import CaseResult, ConformanceConfig, run_cases
from jissoku.pipeline.gateway_counts import GatewayCount
from jissoku.pipeline.selection import prepare_external, prepare_recipe
from jissoku.targets.prepare import PreparedTarget


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
    cases = choose_cases(read_all(options.cases or BUILTIN_CASES), options.case)
    prepared = _prepared(options)
    results: list[CaseResult] = []
    asked = ConformanceConfig(prepared=prepared, cases=cases, sending=options.sending)
    finished = run_cases(asked, results)
    code = print_results(
        prepared, results, CaseVerdict, show_all=options.show_all, as_json=options.as_json
    )
    return code if finished else exit_codes.INTERRUPTED


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
        passed = len(results) - len(failed)
        click.echo(
            f"{passed} of {len(results)} {plural(len(results), 'case')}"
            f" {plural(passed, 'passes', 'pass')}"
        )
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


def _prepared(options: ConformanceOptions) -> PreparedTarget:
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.target is not None:
        return prepare_recipe(options.target, options.recipes)
    return prepare_external(command_text=options.cmd, url=options.url)
