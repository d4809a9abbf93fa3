"""Two commits of one server, built in worktrees and measured together."""

from dataclasses import dataclass
from pathlib import Path

from jissoku.design.sampling_plan import SAMPLING_PLANS, SamplingPlan, deciding
from jissoku.model import CoreAssignment, Method, Mode, Workload
from jissoku.model.bound import BoundResult
from jissoku.model.updated import updated
from jissoku.pipeline.ci import judge
from jissoku.pipeline.compare import compare
from jissoku.pipeline.compare_config import CompareConfig, noise_floors
from jissoku.pipeline.progress import ProgressListener
from jissoku.pipeline.selection import build_paths
from jissoku.pipeline.trial_runner import PreparedArm
from jissoku.stats.bounds import cost_bounds, needs_closed_loop
from jissoku.system.interruption import Interrupted
from jissoku.targets import command
from jissoku.targets.worktree import checkout

GOOD, CANDIDATE = "good", "candidate"

# Of the first attempt, which decides large differences. The next one ends when it is precise enough
# to decide the bound, or has this many blocks if no precision is known to decide it.
BLOCKS, BLOCKS_LONG = 10, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitQuestion:
    """The measurement of every commit.

    Attributes:
        good: The commit that candidates are compared with.
        command: Starts the server in a commit's folder.
        build: Builds a commit in its folder; empty: nothing is built.
        bound: The searched property, a bound of the arms `good` and `candidate`.
        folder: Has a run for each measurement.
    """

    good: str
    command: str
    build: str
    bound: str
    workload: Workload
    seed: int
    cores: CoreAssignment
    folder: Path
    version: str


def compare_commits(
    question: CommitQuestion, commit: str, attempt: int, listener: ProgressListener
) -> BoundResult:
    """Measures a commit together with the good one.

    Raises:
        Interrupted: On request.
        TargetError: A build failed.
    """
    listener.note(f"Building {commit[:12]}.")
    with (
        checkout(question.good, question.build) as good,
        checkout(commit, question.build) as other,
    ):
        arms = []
        for name, place in ((GOOD, good), (CANDIDATE, other)):
            prepared = command.from_command(
                f"{name}={question.command}", build_paths(), place.folder
            )
            arms.append(PreparedArm(prepared.arm(), prepared))
        control = f"{GOOD} again"
        arms.append(PreparedArm(arms[0].prepared.arm(control), arms[0].prepared))
        config = CompareConfig(
            arms_prepared=tuple(arms),
            aa_control=control,
            floor=None,
            unavailable=(),
            workload=question.workload,
            mode=Mode.QUICK,
            plan=sampling_plan(question.bound, attempt),
            seed=question.seed + attempt,
            cores=question.cores,
            folder=question.folder / f"{commit[:12]}-{attempt + 1}",
            version=question.version,
            method=Method.PAIRED,
            one_load=True,
            noise_floors=noise_floors(),
            verb="bisect",
            labels={"good": question.good, "commit": commit},
        )
        if not compare(config, listener):
            raise Interrupted
    (found,) = judge(config.folder, [question.bound])
    return found


def sampling_plan(bound: str, attempt: int) -> SamplingPlan:
    """Few blocks in the first attempt, and more in the next one."""
    plan = updated(SAMPLING_PLANS[Mode.QUICK], capacity_blocks=0)
    if attempt:
        plan = updated(plan, blocks=BLOCKS_LONG, blocks_max=BLOCKS_LONG)
        plan = deciding(plan, cost_bounds([bound]))
    else:
        plan = updated(plan, blocks=BLOCKS, blocks_max=BLOCKS)
    return updated(plan, closed_loop_blocks=plan.blocks_max) if needs_closed_loop([bound]) else plan


__all__ = ["CommitQuestion", "Interrupted", "compare_commits", "sampling_plan"]
