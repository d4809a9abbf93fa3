"""`jissoku doctor --prove`: runs the lab's self-test and prints its results."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.cli.messages import version_line
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.model import LoadLevel, Method
from jissoku.model.noise_floor import NoiseFloor
from jissoku.pipeline import self_test, viewer_test
from jissoku.pipeline.selection import folder_for
from jissoku.pipeline.self_test import OWN_TARGET, SelfTestConfig
from jissoku.pipeline.self_test_plan import SeriesResults
from jissoku.records import noise_floor
from jissoku.stats import self_test as bounds
from jissoku.stats.self_test import BoundCheck, BoundState
from jissoku.system import cores

MARKS = {BoundState.PASS: "[green]pass[/]", BoundState.FAIL: "[red]BROKEN[/]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestOptions:
    """What the command line says about a self-test.

    Attributes:
        folder: Of its records; None: a new one under runs/.
    """

    campaigns: int
    levels: Sequence[LoadLevel]
    seed: int
    folder: Path | None = None


def run_self_test(options: SelfTestOptions) -> int:
    """Runs the campaigns, prints the results, and stores the noise floors.

    Returns:
        The exit code; records stay in the folder.

    Raises:
        JissokuError: jissoku itself is not available.
    """
    config = _config("self-test", options)
    with ProgressDisplay() as show:
        result = self_test.run_self_test(config, show)
        if not result.is_finished:
            show.note("Interrupted: the table holds the finished campaigns.")
    rows = self_test.bound_checks(result)
    _print(rows, result.series)
    floors = self_test.measured_noise_floors(result, config.version)
    _print_floors(floors, self_test.keep_noise_floors(floors))
    return exit_code({row.state for row in rows}) if result.is_finished else exit_codes.INTERRUPTED


def run_viewer_test(options: SelfTestOptions) -> int:
    """Runs campaigns with a page open and without, and prints how they differ.

    Returns:
        The exit code; records stay in the folder.

    Raises:
        JissokuError: jissoku itself is not available, or the pages cannot be served.
    """
    # Imports the pages, which nothing else of the laboratory needs.
    from jissoku.ui.open_page import open_page  # noqa: PLC0415

    config = _config("viewer-test", options)
    with ProgressDisplay() as show:
        result = viewer_test.run_viewer_test(config, open_page, show)
        if not result.is_finished:
            show.note("Interrupted: the table holds the finished campaigns.")
    rows = viewer_test.viewer_checks(result)
    _print(rows, ())
    return exit_code({row.state for row in rows}) if result.is_finished else exit_codes.INTERRUPTED


def _config(name: str, options: SelfTestOptions) -> SelfTestConfig:
    return SelfTestConfig(
        campaigns=options.campaigns,
        levels=options.levels,
        seed=options.seed,
        cores=cores.partition_cores(cores.available_cores()),
        folder=options.folder or folder_for(name),
        version=version_line(),
    )


def exit_code(states: Collection[BoundState]) -> int:
    """The exit code of a finished table."""
    if BoundState.FAIL in states:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if BoundState.UNDECIDED in states else exit_codes.OK


def _print(rows: Sequence[BoundCheck], results: Sequence[SeriesResults]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("series", "campaigns", "found", "bound", ""):
        table.add_column(heading)
    for row in rows:
        mark = MARKS.get(row.state, f"[yellow]{row.state}[/]")
        table.add_row(row.series, str(row.campaigns), row.result, row.bound, mark)
    Console(highlight=False).print(table)
    for result in results:
        if not result.all:
            continue
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
            f"Not kept for later verdicts: that takes {noise_floor.CAMPAIGNS_MIN} campaigns of"
            " equal arms."
        )
