"""The series of campaigns that `jissoku self-test` runs at a load, in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jissoku.errors import JissokuError
from jissoku.model import Load, Method
from jissoku.pipeline.self_test_series import (
    CampaignResult,
    CampaignRunner,
    TestCampaign,
    TestPair,
    equal_pair,
    slowed,
)
from jissoku.targets.prepare import PreparedTarget

# jissoku is compared with the first of these that is available.
DIFFERENT_TARGETS = ("nginx-tuned", "go")

# Ratio minus one.
INJECTED_SAME = 0.02
INJECTED_DIFFERENT = 0.05

# Campaigns of equal arms per campaign of this kind.
INJECTED_SHARE = 2
UNLIKE_SHARE = 5
SINGLE_SHARE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesResults:
    """The results of the campaigns at one load, added as they end."""

    load: Load
    paired: list[CampaignResult] = field(default_factory=list)
    paired_injected: list[CampaignResult] = field(default_factory=list)
    time_sliced: list[CampaignResult] = field(default_factory=list)
    single: list[CampaignResult] = field(default_factory=list)
    unlike: list[CampaignResult] = field(default_factory=list)
    unlike_injected: list[CampaignResult] = field(default_factory=list)

    @property
    def all(self) -> tuple[CampaignResult, ...]:
        """The results of all series."""
        like, unlike = (*self.paired, *self.paired_injected), (*self.unlike, *self.unlike_injected)
        return (*like, *self.time_sliced, *self.single, *unlike)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestPlan:
    """The campaigns at one load, in order; our server is the first target."""

    targets: tuple[PreparedTarget, ...]
    campaigns: int

    @property
    def ours(self) -> PreparedTarget:
        """Our server, the only one into which work can be injected."""
        return self.targets[0]

    @property
    def other(self) -> PreparedTarget | None:
        """The target that our server is compared with."""
        known = {one.name: one for one in self.targets}
        return next((known[name] for name in DIFFERENT_TARGETS if name in known), None)

    def expected(self, load: Load) -> Iterator[TestCampaign]:
        """All campaigns, for an estimate; injected work does not change their duration."""
        like = TestCampaign(pair=equal_pair(self.ours), load=load)
        yield from [like] * (self.campaigns + self._share(INJECTED_SHARE))
        yield from self._equal(load)
        yield from self._single(load)
        if self.other is not None:
            sliced = TestCampaign(pair=equal_pair(self.ours), load=load, method=Method.TIME_SLICED)
            yield from [sliced] * (2 * self._unlike)

    def run(self, runner: CampaignRunner, result: SeriesResults) -> None:
        """Runs them, and stores their results."""
        load, ours = result.load, self.ours
        like = TestCampaign(pair=equal_pair(ours), load=load)
        for found in runner.run("like arms", [like] * self.campaigns):
            result.paired.append(found)
        pair = TestPair(
            arm=slowed(ours, _busy_ns(result.paired, INJECTED_SAME), INJECTED_SAME),
            against=(ours.name, ours),
        )
        injected = [TestCampaign(pair=pair, load=load)] * self._share(INJECTED_SHARE)
        for found in runner.run("like arms injected", injected):
            result.paired_injected.append(found)
        for found in runner.run("time-sliced", list(self._equal(load))):
            result.time_sliced.append(found)
        for found in runner.run("single-target", list(self._single(load))):
            result.single.append(found)
        if self.other is not None:
            self._run_unlike(runner, result, self.other)

    def _run_unlike(
        self, runner: CampaignRunner, result: SeriesResults, other: PreparedTarget
    ) -> None:
        """Campaigns with and without injected work in alternation, so that conditions are equal."""
        mine = [found for found in result.time_sliced if found.comparison.against == self.ours.name]
        arms = {
            "unlike": (self.ours.name, self.ours),
            "unlike injected": slowed(
                self.ours, _busy_ns(mine, INJECTED_DIFFERENT), INJECTED_DIFFERENT
            ),
        }
        plain, injected = (
            runner.run(
                name,
                [
                    TestCampaign(
                        pair=TestPair(arm=arm, against=(other.name, other)),
                        load=result.load,
                        method=Method.TIME_SLICED,
                    )
                ]
                * self._unlike,
            )
            for name, arm in arms.items()
        )
        for _ in range(self._unlike):
            result.unlike.extend(_next(plain))
            result.unlike_injected.extend(_next(injected))

    @property
    def _unlike(self) -> int:
        """Number of campaigns of each kind with different programs: at least two."""
        return max(2, self._share(UNLIKE_SHARE))

    def _equal(self, load: Load) -> Iterator[TestCampaign]:
        """Targets in rotation."""
        for index in range(self.campaigns):
            pair = equal_pair(self.targets[index % len(self.targets)])
            yield TestCampaign(pair=pair, load=load, method=Method.TIME_SLICED)

    def _single(self, load: Load) -> Iterator[TestCampaign]:
        for _ in range(self._share(SINGLE_SHARE)):
            yield TestCampaign(pair=equal_pair(self.ours), load=load, method=Method.SINGLE)

    def _share(self, part: int) -> int:
        return max(1, self.campaigns // part)


def _next(found: Iterator[CampaignResult]) -> tuple[CampaignResult, ...]:
    """The next one, or none."""
    one = next(found, None)
    return () if one is None else (one,)


def _busy_ns(found: Sequence[CampaignResult], effect: float) -> int:
    """Injected CPU time per request in nanoseconds: the fraction `effect` of a request's cost.

    Raises:
        JissokuError: No campaign measured that cost.
    """
    costs = [one.cost_ns for one in found if one.cost_ns is not None]
    if not costs:
        raise JissokuError("no campaign of jissoku has a cost: no difference can be injected")
    return round(effect * sum(costs) / len(costs))
