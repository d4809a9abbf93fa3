"""Measures targets in time slices and each alone, one after the other on the same start.

python -m tests.agreement_study --out DIRECTORY [--blocks N] [--seed N] [TARGET...]

A block is a start of all targets, warmed up as the lab does. At each load of quick mode, in drawn
order: one trial in time slices of all targets, and each target alone, while the others have no
requests. The CPU time of a target alone is also taken every 100 ms, as in time slices.
tests/test_agreement.py makes a table of the record. Ctrl-C ends it; finished trials are kept.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from jissoku import inference
from jissoku.cli.frame import version_line
from jissoku.cli.progress import ProgressDisplay
from jissoku.design import schedule as grid
from jissoku.design.sampling_plan import MILLISECOND, SAMPLING_PLANS, SECOND
from jissoku.design.schedule import PlannedTrial
from jissoku.errors import InputError
from jissoku.measure.comparison import CompareConfig, run_header
from jissoku.measure.loadgen import TrialTiming
from jissoku.measure.selection import prepare_targets
from jissoku.measure.trial import Servers, TrialRunner, started_servers
from jissoku.model import Load, LoadLevel, Method, Mode, Trial, TrialKind, Workload
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from jissoku.request import ComparisonRequest
from jissoku.system.cores import core_assignment, pin_process
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.system.measurement_lock import measurement_lock
from jissoku.targets.supervisor import supervisor

T = TypeVar("T")

TARGETS = ("nginx-tuned", "jissoku", "go", "node", "uvicorn", "tornado", "granian")
PLAN = SAMPLING_PLANS[Mode.QUICK]

# Of every target, in time slices and alone. A block with seven targets takes a minute.
ACTIVE_NS = {LoadLevel.LIGHT: SECOND, LoadLevel.MEDIUM: SECOND, LoadLevel.HEAVY: 6 * SECOND // 10}
ALONE_NS = 3 * SECOND // 2
IDLE_WATCH_NS = 100 * MILLISECOND
PILOT_NS = 400 * MILLISECOND


def main() -> None:
    """Measures all blocks."""
    words = argparse.ArgumentParser(prog="python -m tests.agreement_study")
    words.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS))
    words.add_argument("--out", type=Path, required=True, metavar="DIRECTORY")
    words.add_argument("--blocks", type=int, default=20)
    words.add_argument("--seed", type=int, default=random.getrandbits(31))
    asked = words.parse_args()
    with measurement_lock("tests.agreement_study"), ProgressDisplay() as progress:
        supervisor()
        chosen = ComparisonRequest(arms=tuple(asked.targets))
        try:
            arms = prepare_targets(chosen, progress).arms
        except InputError as error:
            words.error(str(error))
        config = CompareConfig(
            arms_prepared=arms,
            workload=Workload(),
            mode=Mode.QUICK,
            plan=updated(PLAN, blocks=asked.blocks, blocks_max=asked.blocks),
            seed=asked.seed,
            cores=core_assignment(None, None),
            folder=asked.out,
            version=version_line(),
            method=Method.TIME_SLICED,
        )
        header = run_header(config)
        with (
            Interruption() as interruption,
            pin_process(config.cores.generator),
            RunWriter(config.folder, header) as writer,
        ):
            study = _Study(config, TrialRunner(config.arms_prepared, config.cores, interruption))
            try:
                for trial in study.trials():
                    # The pilot has found them.
                    if header.loads != study.loads:
                        header = writer.update(updated(header, loads=study.loads))
                    writer.add(trial)
                    progress.note(f"block {trial.block}: {trial.kind}, {', '.join(trial.arms)}")
            except Interrupted:
                writer.stop_early("it was interrupted")


class _Study:
    """The trials of one study, in order."""

    def __init__(self, config: CompareConfig, runner: TrialRunner) -> None:
        self.config = config
        self.runner = runner
        self.loads: tuple[Load, ...] = ()
        self._rates: dict[str, float] = {}
        self._count = 0

    def trials(self) -> Iterator[Trial]:
        """Of all blocks; the first start is also that of the pilot."""
        for block in range(self.config.plan.blocks):
            rng = random.Random(f"{self.config.seed}/{block}")
            planned = PlannedTrial(
                block=block,
                kind=TrialKind.TIME_SLICED,
                arms=tuple(_shuffled(self.config.names, rng)),
                seed=rng.getrandbits(31),
            )
            with started_servers(self.runner, planned, self.config.workload) as servers:
                servers.warm_up(planned, self.config.workload, self.config.plan)
                if not self.loads:
                    yield from self._pilot(servers, planned)
                for load in _shuffled(self.loads, rng):
                    yield from self._at(load, servers, planned, rng)

    def _pilot(self, servers: Servers, planned: PlannedTrial) -> Iterator[Trial]:
        """The closed-loop rate of each target, which decides the loads that it reaches."""
        found = []
        for name in planned.arms:
            alone = updated(planned, kind=TrialKind.CLOSED_LOOP, arms=(name,))
            trial = servers.measure(alone, self.config.workload, TrialTiming(0, PILOT_NS))
            found.append(trial)
            yield self._checked(trial)
        self._rates = grid.capacities_of(found)
        self.loads = grid.loads(self._rates, self.config.names, Mode.QUICK, cores=1)

    def _at(
        self, load: Load, servers: Servers, planned: PlannedTrial, rng: random.Random
    ) -> Iterator[Trial]:
        workload = updated(self.config.workload, rate_rps=load.rate_rps)
        names = grid.arms_reaching(load, self._rates, planned.arms)
        length = PLAN.slice_length(load, is_check=False)
        parts: list[tuple[str, ...]] = [names, *((name,) for name in names)]
        for arms in _shuffled(parts, rng):
            is_alone = len(arms) == 1
            kind = TrialKind.FIXED_RATE if is_alone else TrialKind.TIME_SLICED
            span_ns = ALONE_NS if is_alone else ACTIVE_NS[load.level] * len(arms)
            trial = servers.measure(
                updated(planned, kind=kind, arms=arms),
                workload,
                TrialTiming(0, span_ns, length.length_ns, IDLE_WATCH_NS),
            )
            yield self._checked(updated(trial, slice_ns=length.nominal_ns))

    def _checked(self, trial: Trial) -> Trial:
        trial = updated(trial, index=self._count, start_index=trial.block + 1)
        self._count += 1
        return updated(trial, failed_checks=inference.trial_checks(trial))


def _shuffled(items: Sequence[T], rng: random.Random) -> list[T]:
    return rng.sample(list(items), len(items))


if __name__ == "__main__":
    main()
