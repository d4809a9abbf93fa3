"""Two commits of one server, built in worktrees and measured together."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jissoku.design.sampling_plan import SAMPLING_PLANS, SamplingPlan, deciding
from jissoku.errors import InputError
from jissoku.inference.bounds import cost_bounds, needs_closed_loop
from jissoku.measure.ci import judge
from jissoku.measure.compare import compare
from jissoku.measure.compare_config import CompareConfig, noise_floors
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import build_paths
from jissoku.measure.trial_runner import PreparedArm
from jissoku.model import CoreAssignment, Method, Mode, Workload
from jissoku.model.bound import BoundResult
from jissoku.model.updated import updated
from jissoku.request import BisectionRequest
from jissoku.system.interruption import Interrupted
from jissoku.targets import command
from jissoku.targets.command import (
    build_words,
    check_release,
    checkout,
    from_release,
    is_release,
    resolve,
    run_build,
)

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
    request: BisectionRequest | None = None


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
            request=question.request,
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


BASE = "base"

# No git ref begins so (git-check-ref-format(1)).
PATH_BEGINS = (".", "/")


def check_ref(given: str) -> None:
    """Refuses a baseline that is neither a release nor a commit, before anything is built.

    Raises:
        InputError: It is neither; of a path the message says that it is no run either.
    """
    if is_release(given):
        check_release(given)
        return
    if given.startswith(PATH_BEGINS):
        raise InputError(_no_run(given))
    try:
        resolve(given)
    except InputError as error:
        # A branch may have a slash in its name, too.
        if "/" in given or Path(given).is_dir():
            raise InputError(f"{_no_run(given)}, and it is no commit: {error}") from error
        raise


def check_commands(commands: Sequence[str], build: str) -> None:
    """Refuses commands that cannot be measured with a baseline, before anything is built.

    Raises:
        InputError: Not one command, or it or the build is malformed.
    """
    _head(commands)
    command.read_command(*commands)
    build_words(build)


def _no_run(folder: str) -> str:
    missing = "it has no run.json" if Path(folder).is_dir() else "there is no such folder"
    return f"--baseline {folder} is not the folder of a run: {missing}"


def baseline(
    given: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> AbstractContextManager[PreparedArm]:
    """The arm `base` of a release if `given` is one, else of a git ref."""
    prepare = release_baseline if is_release(given) else git_baseline
    return prepare(given, commands, build, listener)


@contextmanager
def git_baseline(
    ref: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> Iterator[PreparedArm]:
    """Builds the working directory and a ref, and prepares the ref's command as the arm `base`.

    Args:
        ref: A branch, tag or commit.
        commands: The values of `--cmd`: one `NAME=COMMAND`.
        build: Builds both, each in its own folder; empty: nothing is built.
        listener: Receives a note about each build.

    Raises:
        InputError: Not one command, no repository, or no such ref.
        TargetError: A build failed.
    """
    name, words = _head(commands)
    if build:
        listener.note(f"Building {name}: {build}.")
        run_build(build, command.HERE)
    listener.note(f"Building {BASE} from {ref}.")
    with checkout(ref, build) as found:
        prepared = command.from_command(f"{BASE}={words}", build_paths(), found.folder)
        listener.note(f"{BASE} is {found.commit[:12]}.")
        yield PreparedArm(prepared.arm(), prepared)


@contextmanager
def release_baseline(
    release: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> Iterator[PreparedArm]:
    """Installs a released Python package, and prepares the command with it as the arm `base`.

    Args:
        release: A wheel's path, or `PACKAGE==VERSION`.
        commands: The values of `--cmd`: one `NAME=COMMAND`.
        build: Builds the working directory; empty: nothing is built.
        listener: Receives a note about each step.

    Raises:
        InputError: Not one command, or no such wheel.
        TargetError: The build failed, or the release cannot be installed.
    """
    name, words = _head(commands)
    if build:
        listener.note(f"Building {name}: {build}.")
        run_build(build, command.HERE)
    listener.note(f"Installing {BASE}: {Path(release).name}.")
    prepared = from_release(f"{BASE}={words}", release, build_paths())
    yield PreparedArm(prepared.arm(), prepared)


def _head(commands: Sequence[str]) -> tuple[str, str]:
    """Name and command of the working directory's arm."""
    if len(commands) != 1:
        raise InputError("--baseline needs one command: --cmd 'head=./server --port {port}'")
    name, _, words = commands[0].partition("=")
    if name == BASE:
        raise InputError(f"--cmd {name}=...: {BASE!r} is the baseline's name, choose another")
    return name, words
