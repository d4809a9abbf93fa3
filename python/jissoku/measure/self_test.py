"""The lab tests itself on this machine: campaigns of equal arms and of arms with injected work.

Equal arms must not be reported as different more often than chance allows, injected work must be
detected, the ratio of a different pair must change by the injected amount, and two campaigns of one
pair must agree (METHODOLOGY, "The lab tests itself"). The noise floor is stored for later verdicts.
"""

import datetime as dt
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from jissoku import inference, model, records
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.design.schedule import LOADS
from jissoku.errors import InputError, JissokuError, TargetError
from jissoku.inference import self_test as bounds
from jissoku.inference.checks import is_rejected
from jissoku.inference.self_test import BoundCheck
from jissoku.measure.compare import compare
from jissoku.measure.comparison import CompareConfig, noise_file
from jissoku.measure.machine import machine
from jissoku.measure.progress import ProgressListener, SeriesProgress
from jissoku.measure.selection import prepare_recipe
from jissoku.measure.trial import PreparedArm
from jissoku.model.run import NoiseFloor
from jissoku.model.updated import updated
from jissoku.records import files
from jissoku.targets.prepare import PreparedTarget

# Of quick mode, without what has no part in the bounds: pilot, checks and capacity searches.
EFFORT = updated(
    SAMPLING_PLANS[model.Mode.QUICK],
    closed_loop_blocks=0,
    fixed_rate_blocks=0,
    cross_check_blocks=0,
    capacity_blocks=0,
)

# What a start takes beside its windows: idle cores awaited, targets started, verified, warmed and
# ended. As measured on two virtual cores. One whose runtime compiles takes as long again for each
# arm, and its own warm-up.
START_S = 0.9

# Idle time before a time-sliced trial in which targets are observed.
IDLE_WATCH_S = 0.2

# jissoku is compared with the first of these that is available.
DIFFERENT_TARGETS = ("nginx-tuned", "go")

# Ratio minus one.
INJECTED_SAME = 0.02
INJECTED_DIFFERENT = 0.05

# Campaigns of equal arms per campaign of this kind.
INJECTED_SHARE = 2
UNLIKE_SHARE = 5
SINGLE_SHARE = 10

OWN_TARGET = "jissoku"

# Equal arms in time slices: one of each kind of server, where available.
OTHER_TARGETS = ("go", "node", "nginx-tuned")


def slowed(prepared: PreparedTarget, busy_ns: int, effect: float) -> tuple[str, PreparedTarget]:
    """Our server with a busy loop before each response, and its name."""
    assert prepared.start is not None, "a recipe has a command"
    command = (*prepared.start.command, "--busy-ns", str(busy_ns))
    start = updated(prepared.start, command=command)
    return f"{prepared.name} {100 * effect:+.0f}%", updated(prepared, start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCampaign:
    """Two arms by name, the second one being the baseline; without a method the rule decides."""

    arm: tuple[str, PreparedTarget]
    against: tuple[str, PreparedTarget]
    load: model.Load
    method: model.Method | None = None

    @property
    def seconds(self) -> float:
        if self.method is not model.Method.TIME_SLICED:
            return self.trials * (START_S + (EFFORT.warmup_ns + EFFORT.window_ns) / 1e9)
        asked_ns = EFFORT.active_ns_by_level.get(self.load.level, EFFORT.window_ns)
        compiling = sum(bool(prepared.compiles) for _, prepared in (self.arm, self.against))
        started_s = START_S + compiling * (START_S + EFFORT.compile_ns / 1e9)
        return EFFORT.blocks * (started_s + IDLE_WATCH_S + 2 * asked_ns / 1e9)

    @property
    def trials(self) -> int:
        return EFFORT.blocks * (2 if self.method is model.Method.SINGLE else 1)


def equal_arms(
    prepared: PreparedTarget, load: model.Load, method: model.Method | None = None
) -> TestCampaign:
    name = prepared.name
    return TestCampaign(
        arm=(f"{name} again", prepared), against=(name, prepared), load=load, method=method
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """What a campaign came to.

    Attributes:
        cost_ns: CPU time per request of the pair's baseline.
        steal: Part of the server cores' time that the host took, on average over its trials.
        trials: Trials that did not fail.
        rejected: Those of them that the machine disturbed.
    """

    comparison: model.Comparison
    cost_ns: float | None
    steal: float | None
    trials: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestConfig:
    """`campaigns` is the number of those of equal arms at each load; the others follow from it."""

    campaigns: int
    levels: Sequence[model.LoadLevel]
    seed: int
    cores: model.CoreAssignment
    folder: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRunner:
    config: SelfTestConfig
    progress: SeriesProgress

    def run(
        self, series: str, campaigns: Sequence[TestCampaign], indices: Iterable[int] | None = None
    ) -> Iterator[CampaignResult]:
        """What each campaign found, as soon as it has ended; nothing of one without a comparison.

        Of the campaigns of a series only those of the `indices` are run. KeyboardInterrupt
        on request: what was finished is on disk.
        """
        for index in range(len(campaigns)) if indices is None else indices:
            campaign = campaigns[index]
            config = self._question(campaign, self.place(series, campaign, index), index)
            self.progress.begin(campaign.seconds, campaign.trials)
            if not compare(config, self.progress):
                raise KeyboardInterrupt
            run, trials = records.read(config.folder)
            summary = inference.summarise(run, trials)
            costs = summary.by(model.Metric.COST)
            if costs:
                against = next(s for s in summary.arm_summaries if s.arm.name == run.baseline)
                point = against.at(campaign.load)
                yield CampaignResult(
                    comparison=costs[0],
                    cost_ns=point.cost_ns.value if point and point.cost_ns else None,
                    steal=_steal(trials),
                    trials=sum(trial.failure is None for trial in trials),
                    rejected=sum(map(is_rejected, trials)),
                )
            # Last: an interruption after this line loses nothing that it names.
            text = costs[0].sentence if costs else "no trial counted"
            self.progress.end(f"{series}, {index + 1} of {len(campaigns)}: {text}.")

    def place(self, series: str, campaign: TestCampaign, index: int) -> Path:
        name = f"{series}-{campaign.load.level}".replace(" ", "-")
        return self.config.folder / name / f"{index:02}"

    def _question(self, campaign: TestCampaign, folder: Path, index: int) -> CompareConfig:
        is_single = campaign.method is model.Method.SINGLE
        arms = (campaign.against, campaign.arm)
        seed = f"{self.config.seed}/{folder.parent.name}/{index}"
        return CompareConfig(
            arms_prepared=tuple(PreparedArm(one.arm(name), one) for name, one in arms),
            workload=model.Workload(),
            mode=model.Mode.QUICK,
            plan=updated(EFFORT, fixed_rate_blocks=EFFORT.blocks if is_single else 0),
            seed=random.Random(seed).getrandbits(31),
            cores=self.config.cores,
            folder=folder,
            version=self.config.version,
            joint_trials=not is_single,
            method=campaign.method,
            loads=(campaign.load,),
            verb="self-test",
        )


def _steal(trials: Sequence[model.Trial]) -> float | None:
    seen = [t.conditions.steal_fraction for t in trials if t.conditions is not None]
    known = [steal for steal in seen if steal is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesResults:
    load: model.Load
    paired: list[CampaignResult] = field(default_factory=list)
    paired_injected: list[CampaignResult] = field(default_factory=list)
    time_sliced: list[CampaignResult] = field(default_factory=list)
    single: list[CampaignResult] = field(default_factory=list)
    unlike: list[CampaignResult] = field(default_factory=list)
    unlike_injected: list[CampaignResult] = field(default_factory=list)

    @property
    def all(self) -> tuple[CampaignResult, ...]:
        like, unlike = (*self.paired, *self.paired_injected), (*self.unlike, *self.unlike_injected)
        return (*like, *self.time_sliced, *self.single, *unlike)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestPlan:
    """The campaigns at one load, in order; our server is the first target."""

    targets: tuple[PreparedTarget, ...]
    campaigns: int

    @property
    def ours(self) -> PreparedTarget:
        return self.targets[0]

    @property
    def other(self) -> PreparedTarget | None:
        known = {one.name: one for one in self.targets}
        return next((known[name] for name in DIFFERENT_TARGETS if name in known), None)

    def series(self, load: model.Load) -> dict[str, list[TestCampaign]]:
        """The campaigns of each series, without what is injected in some of them."""
        like, single = equal_arms(self.ours, load), equal_arms(self.ours, load, model.Method.SINGLE)
        sliced = [equal_arms(target, load, model.Method.TIME_SLICED) for target in self.targets]
        planned = {
            "like arms": [like] * self.campaigns,
            "like arms injected": [like] * self._share(INJECTED_SHARE),
            "time-sliced": [sliced[index % len(sliced)] for index in range(self.campaigns)],
            "single-target": [single] * self._share(SINGLE_SHARE),
        }
        if self.other is not None:
            unlike = updated(
                sliced[0], arm=(self.ours.name, self.ours), against=(self.other.name, self.other)
            )
            count = max(2, self._share(UNLIKE_SHARE))
            planned |= {"unlike": [unlike] * count, "unlike injected": [unlike] * count}
        return planned

    def expected(self, load: model.Load) -> Iterator[TestCampaign]:
        """All campaigns, for an estimate; injected work does not change their duration."""
        return chain.from_iterable(self.series(load).values())

    def run(self, runner: CampaignRunner, result: SeriesResults) -> None:
        planned = self.series(result.load)

        def injected(series: str, found: Sequence[CampaignResult], effect: float) -> None:
            slow = slowed(self.ours, _busy_ns(found, effect), effect)
            planned[series] = [updated(one, arm=slow) for one in planned[series]]

        def run(series: str, indices: Iterable[int] | None = None) -> Iterator[CampaignResult]:
            return runner.run(series, planned[series], indices)

        result.paired.extend(run("like arms"))
        injected("like arms injected", result.paired, INJECTED_SAME)
        result.paired_injected.extend(run("like arms injected"))
        result.time_sliced.extend(run("time-sliced"))
        result.single.extend(run("single-target"))
        if "unlike" in planned:
            ours = [one for one in result.time_sliced if one.comparison.against == self.ours.name]
            injected("unlike injected", ours, INJECTED_DIFFERENT)
            # In alternation, so that conditions are equal.
            for index in range(len(planned["unlike"])):
                result.unlike.extend(run("unlike", [index]))
                result.unlike_injected.extend(run("unlike injected", [index]))

    def _share(self, part: int) -> int:
        return max(1, self.campaigns // part)


def _busy_ns(found: Sequence[CampaignResult], effect: float) -> int:
    """Injected CPU time per request in nanoseconds: the fraction `effect` of a request's cost."""
    costs = [one.cost_ns for one in found if one.cost_ns is not None]
    if not costs:
        raise JissokuError("no campaign of jissoku has a cost: no difference can be injected")
    return round(effect * sum(costs) / len(costs))


def run_self_test(
    config: SelfTestConfig, listener: ProgressListener
) -> tuple[Sequence[SeriesResults], bool]:
    loads = self_test_loads(config.levels, config.cores)
    results = tuple(SeriesResults(load=load) for load in loads)
    try:
        plan = SelfTestPlan(targets=_targets(listener), campaigns=config.campaigns)
        expected = [one for result in results for one in plan.expected(result.load)]
        seconds = sum(one.seconds for one in expected)
        listener.note(
            f"{len(expected)} campaigns of {EFFORT.blocks} blocks: about"
            f" {max(1, round(seconds / 60))} minutes. Records go to {config.folder}."
        )
        trials = sum(one.trials for one in expected)
        progress = SeriesProgress(listener, seconds=seconds, trials=trials)
        runner = CampaignRunner(config=config, progress=progress)
        for result in results:
            plan.run(runner, result)
    except KeyboardInterrupt:
        return results, False
    return results, True


def measured_noise_floors(
    results: Sequence[SeriesResults], version: str
) -> dict[model.Method, NoiseFloor]:
    """Each method's noise floor: the largest of all loads, so that it is valid at each."""
    found = {}
    by_method = {
        model.Method.PAIRED: [_comparisons(one.paired) for one in results],
        model.Method.TIME_SLICED: [_comparisons(one.time_sliced) for one in results],
    }
    for method, series in by_method.items():
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


def keep_noise_floors(floors: dict[model.Method, NoiseFloor]) -> Path | None:
    """Stores the noise floors from enough campaigns; returns the file, or None without any."""
    enough = {m: one for m, one in floors.items() if one.campaigns >= files.CAMPAIGNS_MIN}
    if not enough:
        return None
    files.keep_noise_floors(noise_file(), machine(), enough)
    return noise_file()


def self_test_loads(
    levels: Sequence[model.LoadLevel], cores: model.CoreAssignment
) -> Iterator[model.Load]:
    for rate, level in LOADS[model.Mode.QUICK]:
        if level in levels:
            yield model.Load(rate_rps=rate * len(cores.server), level=level)


def own_target() -> PreparedTarget:
    return prepare_recipe(OWN_TARGET, ())


def _targets(listener: ProgressListener) -> tuple[PreparedTarget, ...]:
    ready = [own_target()]
    for name in OTHER_TARGETS:
        try:
            ready.append(prepare_recipe(name, ()))
        except InputError as unavailable:
            listener.note(str(unavailable))
        except TargetError as error:
            listener.note(f"{name} is skipped: {error}.")
    return tuple(ready)


def bound_checks(result: SeriesResults) -> Iterator[BoundCheck]:
    at = f"{result.load.level} load"
    paired, injected = _comparisons(result.paired), _comparisons(result.paired_injected)
    plain, slow = _comparisons(result.unlike), _comparisons(result.unlike_injected)
    slices = _comparisons(result.time_sliced)
    if paired:
        yield bounds.check_false_alarms(f"A/A, paired, {at}", paired)
    if slices:
        yield bounds.check_false_alarms(f"A/A, time-sliced, {at}", slices)
    if injected:
        text = f"{100 * INJECTED_SAME:+.0f} % injected, paired, {at}"
        yield from bounds.check_detection(text, injected)
    if plain:
        pair = f"{plain[0].arm} / {plain[0].against}"
        text = f"{100 * INJECTED_DIFFERENT:+.0f} % injected, {pair}, {at}"
        yield bounds.check_shift(text, plain, slow, INJECTED_DIFFERENT)
        yield bounds.check_repeatability(f"{pair} repeated, {at}", plain)


def _comparisons(series: Sequence[CampaignResult]) -> list[model.Comparison]:
    return [one.comparison for one in series]
