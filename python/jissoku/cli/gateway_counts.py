"""`jissoku conformance --through PROXY --count WHAT`: failures while servers end connections."""

import json

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.cli.gateway_mutations import gateway_mutations
from jissoku.measure.gateway_counts import (
    CountConfig,
    CountResult,
    GatewayCount,
    count_gateway,
)
from jissoku.model import Transport
from jissoku.model.wording import plural
from jissoku.targets.prepare import PreparedTarget

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
        click.echo(json.dumps(_data(prepared, what, amount, results), indent=2))
    else:
        for transport, result in results.items():
            _print(prepared, f"{amount} {SENTENCES[what]}", transport, result)
    repeated = any(
        result.counts[method].doubled
        for result in results.values()
        for method in result.counts
        if method == "POST"
    )
    return exit_codes.BOUND_EXCEEDED if repeated else exit_codes.OK


def _print(prepared: PreparedTarget, title: str, transport: Transport, result: CountResult) -> None:
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


def _data(
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
