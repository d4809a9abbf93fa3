"""Results of conformance cases, of servers and of reverse proxies: chosen, printed, and counted."""

import fnmatch
import json
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.conformance.case import Case, GatewayCase
from jissoku.conformance.judge import CaseVerdict, GatewayVerdict
from jissoku.errors import InputError
from jissoku.measure.conformance import CaseResult, GatewayResult
from jissoku.model import Transport
from jissoku.targets.prepare import PreparedTarget

# Verdicts with the same text have the same style.
STYLES: dict[str, str] = {
    CaseVerdict.PASS: "green",
    CaseVerdict.SHOULD_VIOLATED: "yellow",
    CaseVerdict.MUST_VIOLATED: "red",
    CaseVerdict.UNDECIDED: "magenta",
}

# Verdicts that are listed without --all.
REPORTED = set(STYLES) - {CaseVerdict.PASS}


Result = CaseResult | GatewayResult
Chosen = TypeVar("Chosen", Case, GatewayCase)


def choose_cases(cases: Sequence[Chosen], globs: Sequence[str]) -> list[Chosen]:
    """The cases whose name or clause matches a pattern; without patterns, all.

    Raises:
        InputError: No case matches.
    """
    chosen = [
        case
        for case in cases
        if not globs
        or any(
            fnmatch.fnmatchcase(text, glob) for glob in globs for text in (case.name, case.clause)
        )
    ]
    if not chosen:
        raise InputError(f"--case {' '.join(globs)}: no case matches")
    return chosen


def print_results(
    prepared: PreparedTarget,
    results: Sequence[Result],
    verdicts: type[CaseVerdict] | type[GatewayVerdict],
    *,
    show_all: bool,
    as_json: bool,
) -> int:
    """Prints a table of verdicts by group, and the cases that do not pass; or all as JSON.

    Returns:
        The exit code.
    """
    counts = _totals(results)
    if as_json:
        click.echo(_json(prepared, results, verdicts))
    else:
        console = Console(highlight=False)
        noun = "runs" if verdicts is GatewayVerdict else "cases"
        console.print(
            f"{prepared.name} ({prepared.version}), {len(results)} {noun}\n", markup=False
        )
        console.print(_table(results, verdicts))
        for verdict in reversed(verdicts):
            for result in results if show_all or verdict in REPORTED else ():
                if result.judgement.verdict is verdict:
                    _print_case(console, result)
    if counts[verdicts.MUST_VIOLATED]:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if counts[verdicts.UNDECIDED] else exit_codes.OK


def _totals(results: Sequence[Result]) -> Counter[StrEnum]:
    return Counter(result.judgement.verdict for result in results)


def _table(results: Sequence[Result], verdicts: type[StrEnum]) -> Table:
    def cells(counts: Counter[StrEnum]) -> list[str]:
        return [
            f"[{style}]{count}[/]" if count and style else str(count or "")
            for verdict in verdicts
            for count, style in [(counts[verdict], STYLES.get(verdict))]
        ]

    table = Table(box=None, pad_edge=False)
    table.add_column("clause")
    for verdict in verdicts:
        table.add_column(verdict, justify="right")
    for title in dict.fromkeys(result.case.group for result in results):
        table.add_row(
            title, *cells(_totals([result for result in results if result.case.group == title]))
        )
    table.add_section()
    table.add_row("all", *cells(_totals(results)), style="bold")
    return table


def _print_case(console: Console, result: Result) -> None:
    case, judgement = result.case, result.judgement
    where = ""
    if isinstance(result, GatewayResult):
        is_unix = result.transport is Transport.UNIX
        where = f" (server on {'a Unix socket' if is_unix else 'TCP'})"
    console.print(
        f"\n{judgement.verdict}: {case.name}{where}",
        style=STYLES.get(judgement.verdict, ""),
        markup=False,
        soft_wrap=True,
    )
    level = "choice of this project" if case.level == "choice" else case.level.upper()
    tail = f": {judgement.reason}" if judgement.reason else ""
    console.print(f"  {case.clause}, {level}{tail}", markup=False, soft_wrap=True)


def _json(prepared: PreparedTarget, results: Sequence[Result], verdicts: type[StrEnum]) -> str:
    counts = _totals(results)
    return json.dumps(
        {
            "target": prepared.name,
            "version": prepared.version,
            "totals": {verdict: counts[verdict] for verdict in verdicts},
            "cases": [
                {
                    "name": result.case.name,
                    "group": result.case.group,
                    "clause": result.case.clause,
                    "level": result.case.level,
                    **({"upstream": result.transport} if isinstance(result, GatewayResult) else {}),
                    "verdict": result.judgement.verdict,
                    "reason": result.judgement.reason,
                }
                for result in results
            ],
        },
        indent=2,
    )
