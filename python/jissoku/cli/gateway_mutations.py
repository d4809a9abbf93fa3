"""`jissoku conformance --through PROXY --count mutations`: do parsers agree on its output?"""

import json
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.measure.gateway_counts import MutationCounts, count_mutations
from jissoku.targets.prepare import PreparedTarget

SEEDS = range(3)


def gateway_mutations(prepared: PreparedTarget, amount: int, *, as_json: bool) -> int:
    """Counts with each seed, and prints a table; returns the exit code."""
    counts = [count_mutations(prepared, -(-amount // len(SEEDS)), seed) for seed in SEEDS]
    if as_json:
        click.echo(json.dumps(_data(prepared, counts), indent=2))
    else:
        _print(prepared, counts)
    is_broken = any(one.differing or one.crossed or one.surplus for one in counts)
    return exit_codes.BOUND_EXCEEDED if is_broken else exit_codes.OK


def _print(prepared: PreparedTarget, counts: Sequence[MutationCounts]) -> None:
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


def _data(prepared: PreparedTarget, counts: Sequence[MutationCounts]) -> dict[str, object]:
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
