"""`jissoku conformance`: HTTP/1.1, clause by clause, against any server."""

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console

from jissoku.cli import exit_codes
from jissoku.cli.case_results import choose_cases, print_results
from jissoku.cli.conformance_options import ConformanceOptions
from jissoku.cli.gateway_conformance import gateway_conformance
from jissoku.conformance.case import BUILTIN_CASES, read_all
from jissoku.conformance.judge import CaseVerdict
from jissoku.errors import InputError
from jissoku.measure.conformance import (
    AppCaseResult,
    CaseResult,
    ConformanceConfig,
    run_app_cases,
    run_cases,
)
from jissoku.measure.selection import prepare_external, prepare_recipe
from jissoku.model.wording import plural
from jissoku.request import asking
from jissoku.targets.prepare import PreparedTarget


@click.command()
@asking(ConformanceOptions)
def conformance(**given: Any) -> int:
    """Test a server's conformance to HTTP/1.1.

    TARGET is the name of a recipe, see `jissoku targets`; --cmd and --url test any server. Where
    the standard leaves a choice, a server that differs from jissoku is reported as lenient or
    stricter, which is not a failure.

    Exit codes: 0 no MUST is violated, 1 the target failed, 2 bad input, 3 a MUST is violated,
    4 undecided, 130 interrupted.
    """
    options = ConformanceOptions(**given)
    if options.through is not None:
        return gateway_conformance(options, options.through)
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


def _prepared(options: ConformanceOptions) -> PreparedTarget:
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.target is not None:
        return prepare_recipe(options.target, options.recipes)
    return prepare_external(command_text=options.cmd, url=options.url)
