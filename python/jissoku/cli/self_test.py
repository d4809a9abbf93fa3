"""`jissoku self-test`: tests the lab on this machine, and prints the results."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import click
import msgspec
from rich.console import Console
from rich.table import Table

from jissoku.cli.doctor import print_health
from jissoku.cli.frame import ExitCode, exit_code, version_line
from jissoku.cli.progress import ProgressDisplay, lock_machine
from jissoku.inference import self_test as bounds
from jissoku.inference.self_test import BoundCheck, BoundState
from jissoku.measure import self_test as campaigns
from jissoku.measure.selection import folder_for
from jissoku.measure.self_test import OWN_TARGET, SelfTestConfig, SeriesResults
from jissoku.model import LoadLevel, Method
from jissoku.model.run import NoiseFloor
from jissoku.records import files
from jissoku.request.options import option, verb
from jissoku.request.param_types import Written
from jissoku.request.shared import DIRECTORY
from jissoku.system.cores import core_assignment

MARKS = {BoundState.PASS: "[green]pass[/]", BoundState.FAIL: "[red]BROKEN[/]"}


def read_loads(text: str) -> tuple[LoadLevel, ...]:
    """Loads of the grid by name: `light,medium`; else ValueError."""
    known = {str(level): level for level in (LoadLevel.LIGHT, LoadLevel.MEDIUM, LoadLevel.HEAVY)}
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is not a load: there are {', '.join(known)}")
    return tuple(known[name] for name in known if name in names)


class SelfTestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command.

    Attributes:
        campaigns: Number of campaigns of equal arms.
        loads: Loads, comma-separated: light, medium, heavy.
        seed: Seed of all random choices.
        out: Directory for records. Default: a new one under runs/.
    """

    campaigns: Annotated[int, option("--campaigns", type=click.IntRange(1, 200))] = 20
    loads: Annotated[
        tuple[LoadLevel, ...],
        option("--loads", type=Written("loads", read_loads), default_text="medium"),
    ] = (LoadLevel.MEDIUM,)
    seed: Annotated[int, option("--seed", type=click.IntRange(0))] = 1
    out: Annotated[Path | None, option("--out", type=DIRECTORY, metavar="DIR")] = None


@verb(SelfTestOptions)
def self_test(options: SelfTestOptions) -> int:
    """Test the lab on this machine: equal arms, injected work, repetitions. Takes minutes.

    Equal servers may not be reported as different more often than chance allows, injected work
    must be detected, and repeated comparisons must agree. The difference between equal servers is
    stored as the noise floor for later verdicts on this machine.

    Exit codes: 0 success, 1 failure, 2 bad input, 3 a bound is exceeded, 4 a bound could not be
    decided, 130 interrupted (finished series are reported).
    """
    lock_machine()
    print_health()
    config = _config(options)
    with ProgressDisplay() as show:
        results, is_finished = campaigns.run_self_test(config, show)
        if not is_finished:
            show.note("Interrupted: the table holds the finished campaigns.")
    rows = [row for result in results for row in campaigns.bound_checks(result)]
    _print(rows, results)
    floors = campaigns.measured_noise_floors(results, config.version)
    _print_floors(floors, campaigns.keep_noise_floors(floors))
    return bounds_code({row.state for row in rows}) if is_finished else ExitCode.INTERRUPTED


def _config(options: SelfTestOptions) -> SelfTestConfig:
    return SelfTestConfig(
        campaigns=options.campaigns,
        levels=options.loads,
        seed=options.seed,
        cores=core_assignment(None, None),
        folder=options.out or folder_for("self-test"),
        version=version_line(),
    )


def bounds_code(states: Collection[BoundState]) -> int:
    return exit_code(
        is_exceeded=BoundState.FAIL in states, is_undecided=BoundState.UNDECIDED in states
    )


def _print(rows: Sequence[BoundCheck], results: Sequence[SeriesResults]) -> None:
    if not rows:
        return
    table = Table("series", "campaigns", "found", "bound", "", box=None, pad_edge=False)
    for row in rows:
        mark = MARKS.get(row.state, f"[yellow]{row.state}[/]")
        table.add_row(row.series, str(row.campaigns), row.result, row.bound, mark)
    Console(highlight=False).print(table)
    for result in results:
        if result.all:
            click.echo(f"At {result.load.text}, standard deviation of one block's log ratio:")
            for text in _spreads(result):
                click.echo(f"  {text}")
    seen = [one.steal for result in results for one in result.all if one.steal is not None]
    if seen:
        click.echo(
            f"The host took {100 * sum(seen) / len(seen):.1f} % of the server cores' time (steal),"
            f" and {100 * max(seen):.1f} % in the worst campaign."
        )


def _spreads(result: SeriesResults) -> Iterator[str]:
    series = {f"paired, {OWN_TARGET}": [one.comparison for one in result.paired]}
    for found in result.time_sliced:
        one = found.comparison
        series.setdefault(f"time-sliced, {one.against}", []).append(one)
    series[f"single-target, {OWN_TARGET}"] = [one.comparison for one in result.single]
    for name, comparisons in series.items():
        spread = bounds.pooled_sd(comparisons)
        if spread is not None:
            yield f"{name}: {100 * spread:.2f} %"


def _print_floors(floors: Mapping[Method, NoiseFloor], file: Path | None) -> None:
    for method, floor in floors.items():
        click.echo(
            f"Noise floor, {method}: 95 % of campaigns of equal arms are within"
            f" {100 * floor.noise_floor:.2f} %."
        )
    if file is not None:
        click.echo(f"Stored for later verdicts on this machine in {file}.")
    elif floors:
        click.echo(
            f"Not kept for later verdicts: that takes {files.CAMPAIGNS_MIN} campaigns of"
            " equal arms."
        )
