"""`jissoku conformance`: HTTP/1.1, clause by clause, against any server or reverse proxy."""

import fnmatch
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

from jissoku.cli.frame import exit_code
from jissoku.conformance.case import Case, GatewayCase, SplitMode, read_all, read_gateway_cases
from jissoku.conformance.judge import GATEWAY_VERDICTS, SERVER_VERDICTS, CaseVerdict
from jissoku.errors import InputError
from jissoku.measure.conformance import CaseResult, run_app_cases, run_cases, run_gateway_cases
from jissoku.measure.gateway_counts import GatewayCount, count_gateway, count_mutations
from jissoku.measure.selection import prepare_external, prepare_recipe
from jissoku.model import Transport, UpstreamProtocol, plural
from jissoku.request import shared
from jissoku.request.options import option, verb
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
    cases: Annotated[Path | None, option("--cases", type=shared.DIRECTORY)] = None
    splits: Annotated[bool, option("--splits")] = False
    bytes: Annotated[bool, option("--bytes")] = False
    show_all: Annotated[bool, option("--all")] = False
    as_json: shared.AsJson = False

    @property
    def sending(self) -> SplitMode:
        if self.bytes:
            return SplitMode.BYTES
        return SplitMode.SPLITS if self.splits else SplitMode.WHOLE


SEEDS = range(3)

SENTENCES = {
    GatewayCount.IDLE_RACE: "requests while the server closes connections that were idle for 50 ms",
    GatewayCount.RESTARTS: "graceful restarts of the server under load",
}

STYLES = {
    CaseVerdict.PASS: "green",
    CaseVerdict.SHOULD_VIOLATED: "yellow",
    CaseVerdict.MUST_VIOLATED: "red",
    CaseVerdict.UNDECIDED: "magenta",
}

Chosen = TypeVar("Chosen", Case, GatewayCase)


@verb(ConformanceOptions)
def conformance(options: ConformanceOptions) -> int:
    """Test a server's conformance to HTTP/1.1.

    TARGET is the name of a recipe, see `jissoku targets`; --cmd and --url test any server. Where
    the standard leaves a choice, a server that differs from jissoku is reported as lenient or
    stricter, which is not a failure.

    Exit codes: 0 no MUST is violated, 1 the target failed, 2 bad input, 3 a MUST is violated,
    4 undecided, 130 interrupted.
    """
    given = [word for word in (options.target, options.cmd, options.url) if word is not None]
    if options.through is not None:
        if given:
            raise InputError("--through names the target: give no other")
        return _through(options, prepare_recipe(options.through, options.recipes))
    # A wrong pattern is reported before a server is prepared.
    cases = _chosen(read_all(options.cases), options) if not options.apps else []
    if len(given) != 1:
        raise InputError("name one target: a recipe, or --cmd NAME=COMMAND, or --url NAME=URL")
    if options.target is not None:
        prepared = prepare_recipe(options.target, options.recipes)
    else:
        prepared = prepare_external(command_text=options.cmd, url=options.url)
    if options.apps:
        return _apps(options, prepared)
    results, finished = run_cases(prepared, cases, options.sending)
    return _print_results(options, prepared, results, SERVER_VERDICTS, is_finished=finished)


def _chosen(cases: Sequence[Chosen], options: ConformanceOptions) -> list[Chosen]:
    """The cases whose name or clause matches a pattern; without patterns, all."""
    globs = options.case or ("*",)
    chosen = [
        case
        for case in cases
        if any(
            fnmatch.fnmatchcase(text, glob) for glob in globs for text in (case.name, case.clause)
        )
    ]
    if not chosen:
        raise InputError(f"--case {' '.join(options.case)}: no case matches")
    return chosen


def _print_results(
    options: ConformanceOptions,
    prepared: PreparedTarget,
    results: Sequence[CaseResult],
    verdicts: Sequence[CaseVerdict],
    *,
    is_finished: bool,
) -> int:
    counts = Counter[str](result.judgement.verdict for result in results)
    if options.as_json:
        totals = {verdict: counts[verdict] for verdict in verdicts}
        cases = [
            {
                "name": result.case.name,
                "group": result.case.group,
                "clause": result.case.clause,
                "level": result.case.level,
                **({"upstream": result.transport} if result.transport else {}),
                "verdict": result.judgement.verdict,
                "reason": result.judgement.reason,
            }
            for result in results
        ]
        _print_json(prepared, totals=totals, cases=cases)
    else:
        noun = "runs" if verdicts is GATEWAY_VERDICTS else "cases"
        console = _headed(prepared, f", {len(results)} {noun}")
        console.print(_verdicts_table(results, verdicts))
        for verdict in reversed(verdicts):
            for result in (
                results if options.show_all or verdict in STYLES.keys() - {CaseVerdict.PASS} else ()
            ):
                if result.judgement.verdict is verdict:
                    _print_case(console, result)
    return exit_code(
        is_finished=is_finished,
        is_exceeded=counts[CaseVerdict.MUST_VIOLATED] > 0,
        is_undecided=counts[CaseVerdict.UNDECIDED] > 0,
    )


def _verdicts_table(results: Sequence[CaseResult], verdicts: Sequence[CaseVerdict]) -> Table:
    numbers = (Column(verdict, justify="right") for verdict in verdicts)
    table = Table("clause", *numbers, box=None, pad_edge=False)

    def add(title: str, group: str | None, row_style: str = "") -> None:
        counts = Counter[str](
            result.judgement.verdict for result in results if group in {None, result.case.group}
        )
        styled = ((counts[verdict], STYLES.get(verdict)) for verdict in verdicts)
        cells = (f"[{style}]{n}[/]" if n and style else str(n or "") for n, style in styled)
        table.add_row(title, *cells, style=row_style)

    for group in dict.fromkeys(result.case.group for result in results):
        add(group, group)
    table.add_section()
    add("all", None, "bold")
    return table


def _print_case(console: Console, result: CaseResult) -> None:
    case, judgement = result.case, result.judgement
    where = f" (server on {_place(result.transport)})" if result.transport else ""
    console.print(
        f"\n{judgement.verdict}: {case.name}{where}",
        style=STYLES.get(judgement.verdict, ""),
        markup=False,
        soft_wrap=True,
    )
    level = "choice of this project" if case.level == "choice" else case.level.upper()
    tail = f": {judgement.reason}" if judgement.reason else ""
    console.print(f"  {case.clause}, {level}{tail}", markup=False, soft_wrap=True)


def _apps(options: ConformanceOptions, prepared: PreparedTarget) -> int:
    results = [
        result
        for result in run_app_cases(prepared)
        if not options.case or any(fnmatch.fnmatchcase(result.name, glob) for glob in options.case)
    ]
    failed = [result for result in results if result.wrong]
    if options.as_json:
        _print_json(prepared, cases=[asdict(result) for result in results])
    else:
        console = _headed(prepared)
        for result in results if options.show_all else failed:
            style = "red" if result.wrong else "green"
            line = f"{result.name}: {result.wrong or 'pass'}"
            console.print(line, style=style, markup=False, soft_wrap=True)
            console.print(f"  {result.clause}", markup=False, soft_wrap=True)
        passed = len(results) - len(failed)
        click.echo(
            f"{passed} of {len(results)} {plural(len(results), 'case')}"
            f" {plural(passed, 'passes', 'pass')}"
        )
    return exit_code(is_exceeded=bool(failed))


def _through(options: ConformanceOptions, prepared: PreparedTarget) -> int:
    if prepared.forward is None:
        raise InputError(
            f"{prepared.name} is no reverse proxy: its recipe has no [forward]; give another one"
        )
    transports = [Transport.TCP] if options.upstream != Transport.UNIX else []
    if options.upstream != Transport.TCP and prepared.forward.unix:
        transports.append(Transport.UNIX)
    if not transports:
        raise InputError(f"{prepared.name} cannot forward to a Unix socket")
    if options.count is not None:
        if prepared.forward.protocol is not UpstreamProtocol.HTTP:
            raise InputError(f"--count needs a proxy in front of HTTP, and {prepared.name} is none")
        what = GatewayCount(options.count)
        # Enough to detect rates of one in a thousand within seconds; published records use more.
        amount = options.amount or (50 if what is GatewayCount.RESTARTS else 10_000)
        if what is GatewayCount.MUTATIONS:
            return _mutations(prepared, amount, as_json=options.as_json)
        return _counts(prepared, what, transports, amount, as_json=options.as_json)
    cases = _chosen(read_gateway_cases(options.cases), options)
    results, finished = run_gateway_cases(prepared, cases, transports, options.sending)
    return _print_results(options, prepared, results, GATEWAY_VERDICTS, is_finished=finished)


def _counts(
    prepared: PreparedTarget,
    what: GatewayCount,
    transports: Sequence[Transport],
    amount: int,
    *,
    as_json: bool,
) -> int:
    results = {
        transport: count_gateway(prepared, what, transport, amount) for transport in transports
    }
    if as_json:
        rows = [
            {
                "upstream": transport,
                "connections": connections,
                "methods": msgspec.to_builtins(dict(sorted(counts.items()))),
            }
            for transport, (counts, connections) in results.items()
        ]
        _print_json(prepared, count=what, amount=amount, results=rows)
    names = ("requests", "errors at the client", "reached a server twice")
    for transport, (counts, connections) in results.items() if not as_json else ():
        console = _headed(prepared, f": {amount} {SENTENCES[what]}, server on {_place(transport)}")
        numbers = (Column(name, justify="right") for name in names)
        table = Table("method", *numbers, "errors", box=None, pad_edge=False)
        for method, count in sorted(counts.items()):
            errors = ", ".join(f"{error}: {times}" for error, times in count.errors.most_common())
            figures = (count.requests, count.errors.total(), count.doubled)
            table.add_row(method, *map(str, figures), errors)
        console.print(table)
        noun = plural(connections, "connection")
        console.print(f"\n{connections} {noun} to the server\n", markup=False)
    is_repeated = any("POST" in counts and counts["POST"].doubled for counts, _ in results.values())
    return exit_code(is_exceeded=is_repeated)


def _mutations(prepared: PreparedTarget, amount: int, *, as_json: bool) -> int:
    counts = [count_mutations(prepared, -(-amount // len(SEEDS)), seed) for seed in SEEDS]
    columns = {
        "sent": [one.sent for one in counts],
        "forwarded": [one.forwarded for one in counts],
        "connections": [one.streams for one in counts],
        "differing": [one.differing for one in counts],
        "crossed": [one.crossed for one in counts],
        "surplus": [one.surplus for one in counts],
    }
    if as_json:
        rows = [
            {
                "seed": seed,
                **{name: values[seed] for name, values in columns.items()},
                "refused_by": dict(counts[seed].refused_by),
            }
            for seed in SEEDS
        ]
        _print_json(prepared, count="mutations", parsers=list(counts[0].parsers), results=rows)
    else:
        console = _headed(prepared, f": {sum(columns['sent'])} mutated requests")
        names = ("seed", *columns)
        shown = [name if name != "differing" else "read differently" for name in names]
        numbers = (Column(name, justify="right") for name in shown)
        table = Table(*numbers, box=None, pad_edge=False)
        for row in zip(SEEDS, *columns.values(), strict=True):
            table.add_row(*map(str, row))
        console.print(table)
        console.print(f"\nParsers: {', '.join(counts[0].parsers)}.", markup=False)
        for example in (example for one in counts for example in one.examples):
            console.print(f"read differently: {example}", markup=False, soft_wrap=True)
    is_broken = any(one.differing or one.crossed or one.surplus for one in counts)
    return exit_code(is_exceeded=is_broken)


def _place(transport: Transport) -> str:
    return "a Unix socket" if transport is Transport.UNIX else "TCP"


def _headed(prepared: PreparedTarget, tail: str = "") -> Console:
    console = Console(highlight=False)
    heading = f"{prepared.name} ({prepared.version}){tail}\n"
    console.print(heading, markup=False, soft_wrap=True)
    return console


def _print_json(prepared: PreparedTarget, **values: object) -> None:
    shown = {"target": prepared.name, "version": prepared.version, **values}
    click.echo(json.dumps(shown, indent=2))
