"""Made-up runs of the index, with known costs and known changes between occasions."""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jissoku.inference.across_runs import observed_tau, occasions
from jissoku.inference.pooling import pair_ratio
from jissoku.inference.series import SeriesPlan, finished_series, planned_series, series_plans
from jissoku.model import Arm, Load, LoadLevel
from jissoku.model.history import ArmRow, IndexedRun, RatioColumns, RunRow, Series
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from tests.inference import factories
from tests.inference.factories import TrueValues

LOAD = Load(rate_rps=20_000, level=LoadLevel.MEDIUM)

ROW = RunRow(
    run="r",
    started_utc="2026-11-01T10:00:00+00:00",
    verb="compare",
    mode="quick",
    method="time-sliced",
    machine="m",
    machine_text="EPYC, 2 cores",
    machine_label="",
    boot="b0",
    kernel="6.12",
    governor="performance",
    turbo="off",
    clocksource="tsc",
    jissoku="0.1.0",
    workload="w",
    workload_text="GET /, 64 connections",
    path="/",
    connections=64,
    server_cores=1,
    generator_cores=1,
    shared=False,
    baseline="a",
    floor="floor",
    experiment="",
    labels="{}",
    blocks_planned=9,
    blocks=9,
    trials=9,
    trials_valid=9,
    trials_rejected=0,
    noise_floor=None,
    verdicts=0,
    headline="",
)


def arm(name: str, program: str = "", **changes: object) -> ArmRow:
    whole = ArmRow(
        run="r",
        arm=name,
        target=name,
        version="1.0",
        origin="recipe",
        program=program or name,
        binary_sha256="",
        source_sha256="",
        is_floor=name == "floor",
        is_control=False,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def indexed(
    logs: Mapping[str, float],
    rng: random.Random,
    *,
    number: int = 0,
    programs: Mapping[str, str] | None = None,
    tau: float = 0.0,
    sd: float = 0.006,
    blocks: int = 9,
    **changes: object,
) -> IndexedRun:
    """A run on an occasion of its own.

    Args:
        logs: By arm the logarithm of its true cost.
        rng: Of the noise.
        number: Of the occasion: its day and its boot.
        programs: By arm, where it is not the arm's name.
        tau: Standard deviation of a ratio between occasions; half its variance is each arm's.
        sd: Of a block's log ratio.
        blocks: Of the run.
        changes: Of the run's row.
    """
    names = sorted(logs)
    shift = {name: rng.gauss(0, tau / 2**0.5) for name in names}
    value = [
        {name: logs[name] + shift[name] + rng.gauss(0, sd / 2**0.5) for name in names}
        for _ in range(blocks)
    ]
    pairs = {
        (one, other): {index: block[one] - block[other] for index, block in enumerate(value)}
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    }
    fields = {
        "run": f"run{number:04}",
        "boot": f"b{number}",
        "started_utc": f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00+00:00",
    } | changes
    named = programs or {}
    return IndexedRun(
        row=updated(ROW, **fields),  # type: ignore[arg-type]
        arms=tuple(
            arm(name, named.get(name, name), version=named.get(name, "1.0")) for name in names
        ),
        logs={LOAD: pairs},
        folder=f"runs/{number}",
    )


def write_run(
    folder: Path, truths: Mapping[str, TrueValues], arms: tuple[Arm, ...], *, seed: int, day: int
) -> None:
    """Writes the records of a time-sliced run of these arms, with its own boot on each day."""
    run = updated(
        factories.sliced(list(truths), floor="floor"),
        arms=arms,
        seed=seed,
        started_utc=f"2026-11-{day:02}T09:00:00+00:00",
        boot=f"boot{day}",
    )
    with RunWriter(folder, run) as writer:
        for trial in factories.trials(run, truths, seed=seed):
            writer.add(trial)


def target_history(runs: Sequence[IndexedRun], target: str) -> tuple[Series, ...]:
    """Every series of a target, from runs with all their measurements."""
    plans = series_plans(occasions(runs), target)
    planned = planned_series(plans, _ratio_columns(runs, plans))
    machines = {run.row.machine for run in runs}
    taus = {one: observed_tau(run for run in runs if run.row.machine == one) for one in machines}
    return finished_series(planned, {run.row.run: run for run in runs}, taus)


def _ratio_columns(runs: Iterable[IndexedRun], plans: Iterable[SeriesPlan]) -> RatioColumns:
    """The ratios of some plans, as the index of runs gives them."""
    asked = sorted({(key, plan.arm, unit) for plan in plans for key, unit in plan.units.items()})
    known = {run.row.run: run for run in runs}
    rows = [
        (key, arm, unit, load.rate_rps or 0, load.level, ratio.mean, ratio.variance, ratio.freedom)
        for key, arm, unit in asked
        for load in known[key].loads
        if (ratio := pair_ratio(known[key], load, arm, unit))
    ]
    names = ("run", "arm", "unit", "rate", "level", "mean", "variance", "freedom")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return RatioColumns(**columns)  # type: ignore[arg-type]
