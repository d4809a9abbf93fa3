"""`jissoku conformance --through`: conformance of a reverse proxy, clause by clause."""

import fnmatch
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.cli.gateway_counts import gateway_counts
from jissoku.conformance import SplitMode
from jissoku.conformance.gateway import GatewayCase, GatewayVerdict, read_gateway_cases
from jissoku.conformance.gateway.case import BUILTIN_GATEWAY_CASES
from jissoku.errors import InputError
from jissoku.model import Transport
from jissoku.pipeline.gateway_conformance import (
    GatewayConfig,
    GatewayResult,
    run_gateway_cases,
)
from jissoku.pipeline.gateway_counts import GatewayCount
from jissoku.pipeline.selection import prepare_recipe
from jissoku.targets.prepare import PreparedTarget

STYLES = {
    GatewayVerdict.PASS: "green",
    GatewayVerdict.DIFFERS: "",
    GatewayVerdict.SHOULD_VIOLATED: "yellow",
    GatewayVerdict.MUST_VIOLATED: "red",
    GatewayVerdict.UNDECIDED: "magenta",
}

# Verdicts that are listed without --all.
REPORTED = set(GatewayVerdict) - {GatewayVerdict.PASS, GatewayVerdict.DIFFERS}


class UpstreamTransport(StrEnum):
    """The transports of the servers behind the proxy."""

    TCP = "tcp"
    UNIX = "unix"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Values of the command line."""

    target: str
    recipes: tuple[Path, ...]
    case: tuple[str, ...]
    cases: Path | None
    splitting: SplitMode
    upstream: UpstreamTransport
    show_all: bool
    as_json: bool
    count: GatewayCount | None = None
    amount: int | None = None


def gateway_conformance(options: GatewayOptions) -> int:
    """Runs the cases through a proxy and prints the results; returns the exit code."""
    prepared = prepare_recipe(options.target, options.recipes)
    if prepared.forward is None:
        raise InputError(
            f"{prepared.name} is no reverse proxy: its recipe has no [forward]; give another one"
        )
    transports = _transports(prepared, options.upstream)
    if options.count is not None:
        return gateway_counts(
            prepared, options.count, transports, amount=options.amount, as_json=options.as_json
        )
    cases = _chosen(read_gateway_cases(options.cases or BUILTIN_GATEWAY_CASES), options.case)
    results: list[GatewayResult] = []
    finished = run_gateway_cases(
        GatewayConfig(
            prepared=prepared,
            cases=cases,
            transports=transports,
            splitting=options.splitting,
        ),
        results,
    )
    if options.as_json:
        click.echo(_json(prepared, results))
    else:
        _print(prepared, results, show_all=options.show_all)
    return _code(results) if finished else exit_codes.INTERRUPTED


def _transports(prepared: PreparedTarget, upstream: UpstreamTransport) -> tuple[Transport, ...]:
    assert prepared.forward is not None, "it was asked before"
    if upstream is UpstreamTransport.TCP:
        return (Transport.TCP,)
    if not prepared.forward.unix:
        if upstream is UpstreamTransport.UNIX:
            raise InputError(f"{prepared.name} cannot forward to a Unix socket")
        return (Transport.TCP,)
    if upstream is UpstreamTransport.UNIX:
        return (Transport.UNIX,)
    return (Transport.TCP, Transport.UNIX)


def _chosen(cases: Sequence[GatewayCase], globs: Sequence[str]) -> list[GatewayCase]:
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


def _code(results: Sequence[GatewayResult]) -> int:
    counts = _totals(results)
    if counts[GatewayVerdict.MUST_VIOLATED]:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if counts[GatewayVerdict.UNDECIDED] else exit_codes.OK


def _totals(results: Sequence[GatewayResult]) -> Counter[GatewayVerdict]:
    return Counter(result.judgement.verdict for result in results)


def _print(prepared: PreparedTarget, results: Sequence[GatewayResult], *, show_all: bool) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("clause")
    for verdict in GatewayVerdict:
        table.add_column(verdict, justify="right")
    for title in dict.fromkeys(result.case.group for result in results):
        group = [result for result in results if result.case.group == title]
        table.add_row(title, *_cells(_totals(group)))
    table.add_section()
    table.add_row("all", *_cells(_totals(results)), style="bold")
    console.print(f"{prepared.name} ({prepared.version}), {len(results)} runs\n", markup=False)
    console.print(table)
    for verdict in reversed(GatewayVerdict):
        for result in results if show_all or verdict in REPORTED else ():
            if result.judgement.verdict is verdict:
                _print_case(console, result)


def _cells(counts: Counter[GatewayVerdict]) -> list[str]:
    return [
        f"[{STYLES[verdict]}]{count}[/]" if count and STYLES[verdict] else str(count or "")
        for verdict in GatewayVerdict
        for count in [counts[verdict]]
    ]


def _print_case(console: Console, result: GatewayResult) -> None:
    case, judgement = result.case, result.judgement
    where = "server on a Unix socket" if result.transport is Transport.UNIX else "server on TCP"
    console.print(
        f"\n{judgement.verdict}: {case.name} ({where})",
        style=STYLES[judgement.verdict],
        markup=False,
        soft_wrap=True,
    )
    asked = "choice of this project" if case.level == "choice" else case.level.upper()
    tail = f": {judgement.reason}" if judgement.reason else ""
    console.print(f"  {case.clause}, {asked}{tail}", markup=False, soft_wrap=True)


def _json(prepared: PreparedTarget, results: Sequence[GatewayResult]) -> str:
    counts = _totals(results)
    return json.dumps(
        {
            "target": prepared.name,
            "version": prepared.version,
            "totals": {verdict: counts[verdict] for verdict in GatewayVerdict},
            "cases": [
                {
                    "name": result.case.name,
                    "group": result.case.group,
                    "clause": result.case.clause,
                    "level": result.case.level,
                    "upstream": result.transport,
                    "verdict": result.judgement.verdict,
                    "reason": result.judgement.reason,
                }
                for result in results
            ],
        },
        indent=2,
    )
