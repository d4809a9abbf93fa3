"""`jissoku conformance`: HTTP/1.1, clause by clause, against any server or reverse proxy."""

import fnmatch
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table

from jissoku.cli.frame import ExitCode
from jissoku.conformance.case import (
    BUILTIN_CASES,
    BUILTIN_GATEWAY_CASES,
    Case,
    GatewayCase,
    SplitMode,
    read_all,
    read_gateway_cases,
)
from jissoku.conformance.judge import CaseVerdict, GatewayVerdict
from jissoku.errors import InputError
from jissoku.measure.conformance import (
    AppCaseResult,
    CaseResult,
    ConformanceConfig,
    GatewayConfig,
    GatewayResult,
    run_app_cases,
    run_cases,
    run_gateway_cases,
)
from jissoku.measure.gateway_counts import (
    CountConfig,
    CountResult,
    GatewayCount,
    MutationCounts,
    count_gateway,
    count_mutations,
)
from jissoku.measure.selection import prepare_external, prepare_recipe
from jissoku.model import Transport, UpstreamProtocol
from jissoku.model.wording import plural
from jissoku.request import asking, shared
from jissoku.request.options import option
from jissoku.targets.prepare import PreparedTarget

COUNTS = [str(what) for what in GatewayCount]


class ConformanceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command.

    Attributes:
        cmd: Start a command; {port} is replaced by its port.
        url: Test an external server at this URL.
        through: Test this reverse proxy instead: a recipe, with scripted servers behind it.
        upstream: With --through: the sockets of the servers behind the proxy.
        count: With --through: count failures instead: at closed connections, or with mutated
            requests.
        amount: With --count: number of requests or restarts. Default: 10000 requests, 50 restarts.
        apps: Test how the server calls an application (WSGI or ASGI), started with that of the
            cases.
        case: Run only the cases whose name or clause matches this pattern.
        cases: Directory with other cases. Default: the built-in ones.
        splits: Send each case again, split in two at some places.
        bytes: Send each case again, byte by byte.
        show_all: List every case, not only failures.
        as_json: Print every case as JSON.
    """

    target: Annotated[str | None, option()] = None
    cmd: Annotated[str | None, shared.COMMANDS] = None
    url: Annotated[str | None, shared.URLS] = None
    through: Annotated[str | None, option("--through", metavar="PROXY")] = None
    upstream: Annotated[str, option("--upstream", type=click.Choice(["tcp", "unix", "both"]))] = (
        "both"
    )
    count: Annotated[str | None, option("--count", type=click.Choice(COUNTS))] = None
    amount: Annotated[int | None, option("--amount", type=click.IntRange(min=1))] = None
    apps: Annotated[bool, option("--apps")] = False
    recipes: shared.Recipes = ()
    case: Annotated[tuple[str, ...], option("--case", metavar="GLOB")] = ()
    cases: Annotated[
        Path | None, option("--cases", type=click.Path(file_okay=False, path_type=Path))
    ] = None
    splits: Annotated[bool, option("--splits")] = False
    bytes: Annotated[bool, option("--bytes")] = False
    show_all: Annotated[bool, option("--all")] = False
    as_json: Annotated[bool, option("--json")] = False

    @property
    def sending(self) -> SplitMode:
        """How each case is sent."""
        if self.bytes:
            return SplitMode.BYTES
        return SplitMode.SPLITS if self.splits else SplitMode.WHOLE


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
        click.echo(_results_json(prepared, results, verdicts))
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
        return ExitCode.BOUND_EXCEEDED
    return ExitCode.UNDECIDED if counts[verdicts.UNDECIDED] else ExitCode.OK


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


def _results_json(
    prepared: PreparedTarget, results: Sequence[Result], verdicts: type[StrEnum]
) -> str:
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


SEEDS = range(3)


def gateway_mutations(prepared: PreparedTarget, amount: int, *, as_json: bool) -> int:
    """Counts with each seed, and prints a table; returns the exit code."""
    counts = [count_mutations(prepared, -(-amount // len(SEEDS)), seed) for seed in SEEDS]
    if as_json:
        click.echo(json.dumps(_mutations_data(prepared, counts), indent=2))
    else:
        _print_mutations(prepared, counts)
    is_broken = any(one.differing or one.crossed or one.surplus for one in counts)
    return ExitCode.BOUND_EXCEEDED if is_broken else ExitCode.OK


def _print_mutations(prepared: PreparedTarget, counts: Sequence[MutationCounts]) -> None:
    console = Console(highlight=False)
    sent = sum(one.sent for one in counts)
    console.print(
        f"{prepared.name} ({prepared.version}): {sent} mutated requests\n",
        markup=False,
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False)
    names = ("seed", "sent", "forwarded", "connections", "read differently", "crossed", "surplus")
    for name in names:
        table.add_column(name, justify="right")
    for seed, one in zip(SEEDS, counts, strict=True):
        figures = (one.sent, one.forwarded, one.streams, one.differing, one.crossed, one.surplus)
        table.add_row(str(seed), *map(str, figures))
    console.print(table)
    console.print(f"\nParsers: {', '.join(counts[0].parsers)}.", markup=False)
    for one in counts:
        for example in one.examples:
            console.print(f"read differently: {example}", markup=False, soft_wrap=True)


def _mutations_data(
    prepared: PreparedTarget, counts: Sequence[MutationCounts]
) -> dict[str, object]:
    return {
        "target": prepared.name,
        "version": prepared.version,
        "count": "mutations",
        "parsers": list(counts[0].parsers),
        "results": [
            {
                "seed": seed,
                "sent": one.sent,
                "forwarded": one.forwarded,
                "connections": one.streams,
                "differing": one.differing,
                "crossed": one.crossed,
                "surplus": one.surplus,
                "refused_by": dict(one.refused_by),
            }
            for seed, one in zip(SEEDS, counts, strict=True)
        ],
    }


# Enough to detect rates of one in a thousand within seconds; published records use more.
DEFAULT_AMOUNT = {
    GatewayCount.IDLE_RACE: 10_000,
    GatewayCount.RESTARTS: 50,
    GatewayCount.MUTATIONS: 10_000,
}

SENTENCES = {
    GatewayCount.IDLE_RACE: "requests while the server closes connections that were idle for 50 ms",
    GatewayCount.RESTARTS: "graceful restarts of the server under load",
}


def gateway_counts(
    prepared: PreparedTarget,
    what: GatewayCount,
    transports: tuple[Transport, ...],
    *,
    amount: int | None,
    as_json: bool,
) -> int:
    """Counts, and prints a table for each transport; returns the exit code."""
    amount = DEFAULT_AMOUNT[what] if amount is None else amount
    if what is GatewayCount.MUTATIONS:
        return gateway_mutations(prepared, amount, as_json=as_json)
    results = {
        transport: count_gateway(
            CountConfig(prepared=prepared, what=what, transport=transport, amount=amount)
        )
        for transport in transports
    }
    if as_json:
        click.echo(json.dumps(_counts_data(prepared, what, amount, results), indent=2))
    else:
        for transport, result in results.items():
            _print_counts(prepared, f"{amount} {SENTENCES[what]}", transport, result)
    repeated = any(
        result.counts[method].doubled
        for result in results.values()
        for method in result.counts
        if method == "POST"
    )
    return ExitCode.BOUND_EXCEEDED if repeated else ExitCode.OK


def _print_counts(
    prepared: PreparedTarget, title: str, transport: Transport, result: CountResult
) -> None:
    console = Console(highlight=False)
    where = "a Unix socket" if transport is Transport.UNIX else "TCP"
    console.print(
        f"{prepared.name} ({prepared.version}): {title}, server on {where}\n",
        markup=False,
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False)
    for name in ("method", "requests", "errors at the client", "reached a server twice"):
        table.add_column(name, justify="left" if name == "method" else "right")
    table.add_column("errors")
    for method, count in sorted(result.counts.items()):
        errors = ", ".join(f"{what}: {times}" for what, times in count.errors.most_common())
        table.add_row(
            method, str(count.requests), str(count.error_count), str(count.doubled), errors
        )
    console.print(table)
    console.print(
        f"\n{result.connections} {plural(result.connections, 'connection')} to the server\n",
        markup=False,
    )


def _counts_data(
    prepared: PreparedTarget,
    what: GatewayCount,
    amount: int,
    results: dict[Transport, CountResult],
) -> dict[str, object]:
    return {
        "target": prepared.name,
        "version": prepared.version,
        "count": what,
        "amount": amount,
        "results": [
            {
                "upstream": transport,
                "connections": result.connections,
                "methods": {
                    method: {
                        "requests": count.requests,
                        "errors": dict(count.errors),
                        "doubled": count.doubled,
                    }
                    for method, count in sorted(result.counts.items())
                },
            }
            for transport, result in results.items()
        ],
    }


def gateway_conformance(options: ConformanceOptions, proxy: str) -> int:
    """Runs the cases through a proxy and prints the results; returns the exit code."""
    if any(given is not None for given in (options.target, options.cmd, options.url)):
        raise InputError("--through names the target: give no other")
    prepared = prepare_recipe(proxy, options.recipes)
    if prepared.forward is None:
        raise InputError(
            f"{prepared.name} is no reverse proxy: its recipe has no [forward]; give another one"
        )
    transports = _transports(prepared, options.upstream)
    if options.count is not None:
        if prepared.forward.protocol is not UpstreamProtocol.HTTP:
            raise InputError(f"--count needs a proxy in front of HTTP, and {prepared.name} is none")
        return gateway_counts(
            prepared,
            GatewayCount(options.count),
            transports,
            amount=options.amount,
            as_json=options.as_json,
        )
    cases = choose_cases(read_gateway_cases(options.cases or BUILTIN_GATEWAY_CASES), options.case)
    results: list[GatewayResult] = []
    finished = run_gateway_cases(
        GatewayConfig(
            prepared=prepared,
            cases=cases,
            transports=transports,
            splitting=options.sending,
        ),
        results,
    )
    code = print_results(
        prepared, results, GatewayVerdict, show_all=options.show_all, as_json=options.as_json
    )
    return code if finished else ExitCode.INTERRUPTED


def _transports(prepared: PreparedTarget, upstream: str) -> tuple[Transport, ...]:
    assert prepared.forward is not None, "it was asked before"
    if upstream == Transport.TCP:
        return (Transport.TCP,)
    if not prepared.forward.unix:
        if upstream == Transport.UNIX:
            raise InputError(f"{prepared.name} cannot forward to a Unix socket")
        return (Transport.TCP,)
    if upstream == Transport.UNIX:
        return (Transport.UNIX,)
    return (Transport.TCP, Transport.UNIX)


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
    return code if finished else ExitCode.INTERRUPTED


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
    return ExitCode.BOUND_EXCEEDED if failed else ExitCode.OK


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
