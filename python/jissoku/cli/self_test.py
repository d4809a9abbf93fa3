"""`jissoku doctor --prove`: the lab tests itself on this machine.

Equal arms must not be reported different more often than chance allows, injected work must be
detected, a different pair must shift by the injected amount, and two campaigns of one pair must
agree (METHODOLOGY, "The lab tests itself"). The noise floor is kept, and later verdicts use it.
"""

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes, self_test_bounds as bounds
from jissoku.cli.noise import noise_file
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.cli.selection import build_paths
from jissoku.cli.self_test_bounds import BoundCheck, BoundState
from jissoku.cli.self_test_plan import PLANTED_DIFFERENT, PLANTED_SAME, SelfTestPlan, SeriesResults
from jissoku.cli.self_test_progress import Progress
from jissoku.cli.self_test_series import EFFORT, CampaignRunner
from jissoku.cli.version import version_line
from jissoku.design.loads import LOADS
from jissoku.errors import JissokuError, TargetError
from jissoku.model import Load, LoadLevel, Method, Mode, UnavailableTarget
from jissoku.observe import cores, noise_floor
from jissoku.observe.machine import machine
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget, prepare

OWN_TARGET = "jissoku"

# Equal arms in time slices: one of each kind of server, where available.
OTHER_TARGETS = ("go", "node", "nginx-tuned")

MARKS = {BoundState.PASS: "[green]pass[/]", BoundState.FAIL: "[red]BROKEN[/]"}


def run_self_test(*, campaigns: int, levels: Sequence[LoadLevel], seed: int) -> int:
    """Runs the campaigns, prints what they found, and keeps the noise floors.

    Returns:
        The exit code; records stay in `runs/prove-...`.

    Raises:
        JissokuError: jissoku itself is not available.
    """
    timestamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"self-test-{timestamp}"
    sides = cores.partition_cores(cores.available_cores())
    results = [SeriesResults(load=load) for load in _loads(levels, len(sides.server))]
    finished = False
    with ProgressDisplay() as show:
        try:
            targets = _targets(show)
            plan = SelfTestPlan(targets=targets, campaigns=campaigns)
            expected = [one for result in results for one in plan.expected(result.load)]
            seconds = sum(one.seconds for one in expected)
            show.note(
                f"{len(expected)} campaigns of {EFFORT.blocks} blocks: about"
                f" {max(1, round(seconds / 60))} minutes. Records go to {folder}."
            )
            progress = Progress(show, seconds=seconds, trials=sum(one.trials for one in expected))
            runner = CampaignRunner(folder=folder, seed=seed, cores=sides, progress=progress)
            for result in results:
                plan.run(runner, result)
            finished = True
        except KeyboardInterrupt:
            show.note("Interrupted: the table holds the finished campaigns.")
    rows = [row for result in results for row in _rows(result)]
    _print(rows, results)
    _keep(results)
    return exit_code({row.state for row in rows}) if finished else exit_codes.INTERRUPTED


def exit_code(states: Collection[BoundState]) -> int:
    """What a finished table means to a script."""
    if BoundState.FAIL in states:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if BoundState.UNDECIDED in states else exit_codes.OK


def _loads(levels: Sequence[LoadLevel], server_cores: int) -> Iterator[Load]:
    """Those of quick mode with these names."""
    for rate, level in LOADS[Mode.QUICK]:
        if level in levels:
            yield Load(rate_rps=rate * server_cores, level=level)


def _targets(show: ProgressDisplay) -> tuple[PreparedTarget, ...]:
    """jissoku, and the other available targets."""
    where, recipes = build_paths(), catalogue.recipes()
    ours = prepare(catalogue.get_recipe(recipes, OWN_TARGET), where)
    if isinstance(ours, UnavailableTarget):
        raise JissokuError(ours.sentence)
    ready = [ours]
    for name in OTHER_TARGETS:
        try:
            found = prepare(catalogue.get_recipe(recipes, name), where)
        except TargetError as error:
            show.note(f"{name} is skipped: {error}.")
            continue
        if isinstance(found, UnavailableTarget):
            show.note(found.sentence)
        else:
            ready.append(found)
    return tuple(ready)


def _rows(result: SeriesResults) -> Iterator[BoundCheck]:
    """Of the series that were begun."""
    at = f"{result.load.level} load"
    paired, planted, slices, plain, slow = (
        [one.comparison for one in series]
        for series in (
            result.paired,
            result.paired_planted,
            result.time_sliced,
            result.unlike,
            result.unlike_planted,
        )
    )
    if paired:
        yield bounds.check_false_alarms(f"A/A, paired, {at}", paired)
    if slices:
        yield bounds.check_false_alarms(f"A/A, time-sliced, {at}", slices)
    if planted:
        yield from bounds.check_detection(
            f"{_effect(PLANTED_SAME)} injected, paired, {at}", planted
        )
    if plain:
        pair = f"{plain[0].arm} / {plain[0].against}"
        yield bounds.check_shift(
            f"{_effect(PLANTED_DIFFERENT)} injected, {pair}, {at}", plain, slow, PLANTED_DIFFERENT
        )
        yield bounds.check_repeatability(f"{pair} repeated, {at}", plain)


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


def _effect(planted: float) -> str:
    return f"{100 * planted:+.0f} %"


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


def _keep(results: Sequence[SeriesResults]) -> None:
    """Keeps each method's noise floor: the largest of all loads, that it holds at each."""
    kept = {}
    for method in (Method.PAIRED, Method.TIME_SLICED):
        series = [
            [one.comparison for one in (r.paired if method is Method.PAIRED else r.time_sliced)]
            for r in results
        ]
        floors = [floor for one in series if (floor := bounds.noise_floor(one)) is not None]
        spread = bounds.pooled_sd([one for found in series for one in found])
        if not floors or spread is None:
            continue
        campaigns = min(len(one) for one in series)
        click.echo(
            f"Noise floor, {method}: 95 % of campaigns of equal arms are within"
            f" {100 * max(floors):.2f} %."
        )
        kept[method] = noise_floor.NoiseFloor(
            noise_floor=max(floors),
            campaigns=campaigns,
            blocks=EFFORT.blocks,
            block_sd_log=spread,
            measured_utc=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
            jissoku=version_line(),
        )
    enough = {m: one for m, one in kept.items() if one.campaigns >= noise_floor.CAMPAIGNS_MIN}
    if enough:
        noise_floor.keep(noise_file(), machine(), enough)
        click.echo(f"Kept for later verdicts on this machine in {noise_file()}.")
    elif kept:
        click.echo(
            f"Not kept for later verdicts: that takes {noise_floor.CAMPAIGNS_MIN} campaigns of"
            " equal arms."
        )
