"""The lab tests itself on this machine: campaigns of equal arms and of arms with injected work.

Equal arms must not be reported as different more often than chance allows, injected work must be
detected, the ratio of a different pair must change by the injected amount, and two campaigns of one
pair must agree (METHODOLOGY, "The lab tests itself"). The noise floor is stored for later verdicts.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.design.schedule import LOADS
from jissoku.errors import JissokuError, TargetError
from jissoku.inference import self_test as bounds
from jissoku.inference.self_test import BoundCheck
from jissoku.measure.compare_config import noise_file
from jissoku.measure.machine import machine
from jissoku.measure.progress import ProgressListener, SeriesProgress
from jissoku.measure.selection import build_paths
from jissoku.measure.self_test_series import (
    EFFORT,
    INJECTED_DIFFERENT,
    INJECTED_SAME,
    CampaignRunner,
    SelfTestPlan,
    SeriesResults,
)
from jissoku.model import CoreAssignment, Load, LoadLevel, Method, Mode, UnavailableTarget
from jissoku.model.noise_floor import NoiseFloor
from jissoku.records import noise_floor
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget, prepare

OWN_TARGET = "jissoku"

# Equal arms in time slices: one of each kind of server, where available.
OTHER_TARGETS = ("go", "node", "nginx-tuned")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestConfig:
    """Configuration of a self-test.

    Attributes:
        campaigns: Number of campaigns of equal arms at each load, from which the others follow.
        folder: Has a folder of records for each campaign.
    """

    campaigns: int
    levels: Sequence[LoadLevel]
    seed: int
    cores: CoreAssignment
    folder: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestResult:
    """The results of the campaigns by load; of an interrupted test, those of finished ones."""

    series: tuple[SeriesResults, ...]
    is_finished: bool


def run_self_test(config: SelfTestConfig, listener: ProgressListener) -> SelfTestResult:
    """Runs the campaigns.

    Raises:
        JissokuError: jissoku itself is not available.
    """
    results = tuple(
        SeriesResults(load=load) for load in self_test_loads(config.levels, config.cores)
    )
    try:
        plan = SelfTestPlan(targets=_targets(listener), campaigns=config.campaigns)
        expected = [one for result in results for one in plan.expected(result.load)]
        seconds = sum(one.seconds for one in expected)
        listener.note(
            f"{len(expected)} campaigns of {EFFORT.blocks} blocks: about"
            f" {max(1, round(seconds / 60))} minutes. Records go to {config.folder}."
        )
        progress = SeriesProgress(
            listener, seconds=seconds, trials=sum(one.trials for one in expected)
        )
        runner = CampaignRunner(
            folder=config.folder,
            seed=config.seed,
            cores=config.cores,
            version=config.version,
            progress=progress,
        )
        for result in results:
            plan.run(runner, result)
    except KeyboardInterrupt:
        return SelfTestResult(series=results, is_finished=False)
    return SelfTestResult(series=results, is_finished=True)


def bound_checks(result: SelfTestResult) -> tuple[BoundCheck, ...]:
    """The bounds of all series that were begun, and their results."""
    return tuple(row for series in result.series for row in _rows(series))


def measured_noise_floors(result: SelfTestResult, version: str) -> dict[Method, NoiseFloor]:
    """Each method's noise floor: the largest of all loads, so that it is valid at each."""
    found = {}
    for method in (Method.PAIRED, Method.TIME_SLICED):
        series = [
            [one.comparison for one in (r.paired if method is Method.PAIRED else r.time_sliced)]
            for r in result.series
        ]
        floors = [floor for one in series if (floor := bounds.noise_floor(one)) is not None]
        spread = bounds.pooled_sd([one for comparisons in series for one in comparisons])
        if not floors or spread is None:
            continue
        found[method] = NoiseFloor(
            noise_floor=max(floors),
            campaigns=min(len(one) for one in series),
            blocks=EFFORT.blocks,
            block_sd_log=spread,
            measured_utc=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
            jissoku=version,
        )
    return found


def keep_noise_floors(floors: dict[Method, NoiseFloor]) -> Path | None:
    """Stores the noise floors from enough campaigns; returns the file, or None without any.

    Raises:
        JissokuError: The file cannot be written.
    """
    enough = {m: one for m, one in floors.items() if one.campaigns >= noise_floor.CAMPAIGNS_MIN}
    if not enough:
        return None
    noise_floor.keep(noise_file(), machine(), enough)
    return noise_file()


def self_test_loads(levels: Sequence[LoadLevel], cores: CoreAssignment) -> Iterator[Load]:
    """The loads of quick mode with these names."""
    for rate, level in LOADS[Mode.QUICK]:
        if level in levels:
            yield Load(rate_rps=rate * len(cores.server), level=level)


def own_target() -> PreparedTarget:
    """Jissoku as a target.

    Raises:
        JissokuError: It is not available.
    """
    ours = prepare(catalogue.get_recipe(catalogue.recipes(), OWN_TARGET), build_paths())
    if isinstance(ours, UnavailableTarget):
        raise JissokuError(ours.sentence)
    return ours


def _targets(listener: ProgressListener) -> tuple[PreparedTarget, ...]:
    where, recipes = build_paths(), catalogue.recipes()
    ready = [own_target()]
    for name in OTHER_TARGETS:
        try:
            found = prepare(catalogue.get_recipe(recipes, name), where)
        except TargetError as error:
            listener.note(f"{name} is skipped: {error}.")
            continue
        if isinstance(found, UnavailableTarget):
            listener.note(found.sentence)
        else:
            ready.append(found)
    return tuple(ready)


def _rows(result: SeriesResults) -> Iterator[BoundCheck]:
    at = f"{result.load.level} load"
    paired, injected, slices, plain, slow = (
        [one.comparison for one in series]
        for series in (
            result.paired,
            result.paired_injected,
            result.time_sliced,
            result.unlike,
            result.unlike_injected,
        )
    )
    if paired:
        yield bounds.check_false_alarms(f"A/A, paired, {at}", paired)
    if slices:
        yield bounds.check_false_alarms(f"A/A, time-sliced, {at}", slices)
    if injected:
        yield from bounds.check_detection(
            f"{_effect(INJECTED_SAME)} injected, paired, {at}", injected
        )
    if plain:
        pair = f"{plain[0].arm} / {plain[0].against}"
        yield bounds.check_shift(
            f"{_effect(INJECTED_DIFFERENT)} injected, {pair}, {at}", plain, slow, INJECTED_DIFFERENT
        )
        yield bounds.check_repeatability(f"{pair} repeated, {at}", plain)


def _effect(injected: float) -> str:
    return f"{100 * injected:+.0f} %"
