"""`jissoku doctor --prove`: the lab tests itself on this machine.

Equal arms must not be told apart more often than chance allows, and a planted slowdown of 2 % must
be found (METHODOLOGY, "The lab tests itself").
"""

import dataclasses
import datetime as dt
import math
import statistics
from collections.abc import Iterator
from pathlib import Path

import click

from jissoku import records, stats
from jissoku.cli.contestants import place
from jissoku.cli.progress import Show
from jissoku.cli.version import version_line
from jissoku.design.mode import EFFORTS
from jissoku.errors import JissokuError
from jissoku.model import SOLO_LOAD, Comparison, Estimate, Kind, Missing, Mode, Summary, Workload
from jissoku.observe import cores
from jissoku.pipeline import Contestant, Question, compare
from jissoku.targets import catalogue
from jissoku.targets.prepare import Prepared, prepare

TARGET = "jissoku"
PLANTED = 0.02

# Beside equal arms, half as many campaigns with a planted slowdown.
PLANTED_SHARE = 2


def run(*, campaigns: int, seed: int) -> None:
    """Runs the campaigns and prints what they found; records stay in `runs/prove-...`.

    Raises:
        JissokuError: Our own server cannot be raced here, or the runs were interrupted.
    """
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"prove-{stamp}"
    prepared = _target()
    with Show() as show:
        first = _campaign(_question(folder / "alone", (prepared, prepared), seed), show)
        rate = next(c.rates_rps[0] for c in first.comparisons)
        cost_ns = next(s.cost_ns.value for s in first.standings if s.cost_ns is not None)
        show.note(f"{cost_ns:,.0f} ns per request at {rate:,} a second.")
        slow = _slowed(prepared, round(cost_ns * PLANTED))
        equal = _Series(folder / "equal", (prepared, prepared), rate, campaigns)
        planted = _Series(
            folder / "planted", (prepared, slow), rate, max(1, campaigns // PLANTED_SHARE)
        )
        _print(folder / "alone", list(equal.run(seed, show)), list(planted.run(seed + 1, show)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Series:
    """Campaigns of one pair, duets only."""

    folder: Path
    pair: tuple[Prepared, Prepared]
    rate_rps: int
    campaigns: int

    def run(self, seed: int, show: Show) -> Iterator[Comparison]:
        for index in range(self.campaigns):
            question = _question(self.folder / f"{index:02}", self.pair, seed * 1000 + index)
            question = dataclasses.replace(
                question,
                workload=Workload(rate_rps=SOLO_LOAD * self.rate_rps),
                effort=dataclasses.replace(question.effort, solo_blocks=0),
            )
            (found,) = _campaign(question, show).comparisons
            show.note(f"{self.folder.name} {index + 1}/{self.campaigns}: {found.sentence}")
            yield found


def _target() -> Prepared:
    found = prepare(catalogue.pick(catalogue.recipes(), TARGET), place())
    if isinstance(found, Missing):
        raise JissokuError(f"{found.name} cannot be raced here: {found.reason}")
    return found


def _question(folder: Path, pair: tuple[Prepared, Prepared], seed: int) -> Question:
    one, other = pair
    return Question(
        contestants=(Contestant(one.arm("one"), one), Contestant(other.arm("other"), other)),
        floor=None,
        missing=(),
        workload=Workload(),
        mode=Mode.QUICK,
        effort=dataclasses.replace(EFFORTS[Mode.QUICK], solo_blocks=EFFORTS[Mode.QUICK].blocks),
        seed=seed,
        cores=cores.split(cores.allowed()),
        folder=folder,
        version=version_line(),
    )


def _slowed(prepared: Prepared, busy_ns: int) -> Prepared:
    assert prepared.start is not None, "a recipe has a command"
    command = (*prepared.start.command, "--busy-ns", str(busy_ns))
    return dataclasses.replace(prepared, start=dataclasses.replace(prepared.start, command=command))


def _campaign(question: Question, show: Show) -> Summary:
    if not compare(question, show):
        raise JissokuError(f"interrupted; finished trials are in {question.folder}")
    return stats.summarise(*records.read(question.folder))


def _print(alone: Path, equal: list[Comparison], planted: list[Comparison]) -> None:
    _, trials = records.read(alone)
    solo = [
        math.log(lane.cpu_ns / lane.requests)
        for trial in trials
        if trial.kind is Kind.SOLO_COST and trial.counts
        for lane in trial.lanes
        if lane.cpu_ns
    ]
    ratios = [c.ratio for c in equal if c.ratio is not None]
    effects = sorted(abs(math.log(ratio.value)) for ratio in ratios)
    different = sum(c.verdict.tells_apart for c in equal)
    found = sum(
        c.verdict.tells_apart and c.ratio is not None and c.ratio.value > 1 for c in planted
    )
    seen = [math.log(c.ratio.value) for c in planted if c.ratio is not None]
    floor = effects[int(0.95 * (len(effects) - 1))]
    on_average = _percent(statistics.mean(seen))
    lines = [
        f"Spread of one duet, sd of the log ratio: {_percent(_pooled(ratios))}",
        f"Spread of one solo trial, sd of the log cost: {_percent(statistics.stdev(solo))}",
        f"Equal arms called different: {different} of {len(equal)} campaigns",
        f"Noise floor: 95 % of equal campaigns are within {_percent(floor)}",
        f"Planted {PLANTED:.0%} found: {found} of {len(planted)} campaigns; mean {on_average}",
    ]
    click.echo("\n".join(lines))


def _pooled(ratios: list[Estimate]) -> float:
    return math.sqrt(statistics.mean(ratio.spread**2 for ratio in ratios))


def _percent(value: float) -> str:
    return f"{value:.2%}"
