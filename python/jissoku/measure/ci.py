"""For continuous integration: bounds of a run and their causes, baselines, and commits."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jissoku import inference, records
from jissoku.design.sampling_plan import SAMPLING_PLANS, SamplingPlan, anytime, deciding
from jissoku.design.schedule import bisection_steps_max
from jissoku.errors import HostLost, InputError, RecordError
from jissoku.inference.bounds import bound_results, needs_closed_loop, read_bound
from jissoku.inference.latency import block_costs
from jissoku.inference.profile import difference, summarise
from jissoku.measure.compare import compare
from jissoku.measure.comparison import CompareConfig, noise_floors, with_control
from jissoku.measure.counting import count_arms
from jissoku.measure.host import ServerHost, build_paths
from jissoku.measure.progress import ProgressListener
from jissoku.measure.repository import Repository
from jissoku.measure.selection import workload
from jissoku.measure.trial import PreparedArm
from jissoku.model import CoreAssignment, Method, Mode, updated
from jissoku.model.summary import BoundResult, BoundStatus
from jissoku.records.run_folder import check_writable, trials_sha256
from jissoku.report.bounds import FORMATS, Causes, bound_sentence, causes, comment
from jissoku.request import BisectionRequest
from jissoku.system.interruption import Interrupted
from jissoku.targets import command

GOOD, CANDIDATE = "good", "candidate"

# The most blocks of the first attempt, which decides large differences, and of the next one.
BLOCKS, BLOCKS_LONG = 10, 40

# A commit that costs less is not searched, unless a bound says so.
LEAST_INCREASE = 1.01

# Seconds that measurements may take for each step of a search, and without which none begins: the
# three blocks of a first look take ten.
STEP_S = 60.0
ATTEMPT_S_MIN = 12.0

BASE = "base"

# No git ref begins so (git-check-ref-format(1)).
PATH_BEGINS = (".", "/")


def evaluate_bounds(folder: Path, bounds: Sequence[str]) -> tuple[BoundResult, ...]:
    return bound_results(*records.read(folder), bounds)


def check_folders(files: Iterable[Path | None], out: Path | None) -> None:
    """Refuses files whose folder is not there, before anything is measured.

    `out` is the run's folder, which is created; None: its name is not known yet.
    """
    created = {out, *out.parents} if out is not None else set()
    for folder in (file.parent for file in files if file is not None):
        if folder in created:
            continue
        if not folder.is_dir():
            raise InputError(f"{folder} cannot be written: there is no such folder")
        check_writable(folder)


def any_exceeded(found: Sequence[BoundResult]) -> bool:
    return any(one.status is BoundStatus.EXCEEDED for one in found)


def write_ci_files(
    folder: Path,
    found: Sequence[BoundResult],
    known: Causes | None,
    *,
    comment_file: Path | None,
    step_summary: Path | None,
    exports: Mapping[str, Path],
) -> None:
    """Writes a run's comment, its part of a job's summary, and exports by format.

    The summary is shared with other steps, and appended to. `known` is why an arm uses more CPU
    time, if that was looked for.
    """
    run, trials = records.read(folder)
    summary = inference.summarise(run, trials)
    text = comment(summary, found, trials_sha256(folder), known)
    costs = block_costs(run, trials)
    try:
        if comment_file is not None:
            comment_file.write_text(text, encoding="utf-8")
        if step_summary is not None:
            with step_summary.open("a", encoding="utf-8") as file:
                file.write(text)
        for name, path in exports.items():
            path.write_text(FORMATS[name](summary, costs, found), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from error


def find_causes(
    found: Sequence[BoundResult], config: CompareConfig, listener: ProgressListener
) -> Causes | None:
    """Counts the system calls of the two arms of the first bound on cost that is exceeded.

    Each is started once more, for some seconds. With profiles of both in the run, functions are
    compared too. None without such a bound, if an arm is an external server, or if the host of the
    targets is lost.
    """
    pair = next(filter(None, (_pair(one, config) for one in found)), None)
    if pair is None:
        return None
    arm, against = (one.arm.name for one in pair)
    listener.note(f"Counting system calls of {arm} and {against}.")
    seed = f"{config.seed}/causes"
    try:
        readings = dict(count_arms(pair, config.workload, config.cores, seed, config.host))
    except HostLost as error:
        listener.note(f"{error}.")
        return None
    known = {profile.target: profile for profile in records.read_profiles(config.folder)}
    functions = None
    if arm in known and against in known:
        functions = difference(summarise(known[against]), summarise(known[arm]))
    return causes(arm, against, readings, functions)


def _pair(one: BoundResult, config: CompareConfig) -> tuple[PreparedArm, PreparedArm] | None:
    if one.status is not BoundStatus.EXCEEDED:
        return None
    link = read_bound(one.text)
    sides = (link.above, link.below) if link.relation == ">" else (link.below, link.above)
    if any(len(side) != 1 or side[0].metric != "cost" for side in sides):
        return None
    arms = {known.arm.name: known for known in config.arms_prepared}
    more, less = (arms[side[0].arm] for side in sides)
    if more.prepared.start is None or less.prepared.start is None:
        return None
    return more, less


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitQuestion:
    """How every commit, the oldest first, is compared with the good one, a run for each.

    The searched property is a bound of the arms `good` and `candidate`. Both are built in
    `repository`, which is on `host`.
    """

    request: BisectionRequest
    good: str
    commits: tuple[str, ...]
    repository: Repository
    host: ServerHost
    seed: int
    cores: CoreAssignment
    folder: Path
    version: str

    @property
    def steps_max(self) -> int:
        return bisection_steps_max(len(self.commits))

    @property
    def seconds(self) -> float:
        """How long measurements take together at most, without builds."""
        return self.request.time_limit or STEP_S * self.steps_max


class CommitSearch:
    """Measures commits together with the good one, in a limited time.

    Without a bound of the user's, that is half of the increase that the last commit is shown to
    have: of all bounds it is the one that is decided soonest for those before and after the change.

    Attributes:
        bound: The bound that commits are measured by.
        is_interrupted: A measurement or a build was interrupted.
        lost: Why a measurement could not be made or recorded; empty if each could.
        is_over: The time was over before a measurement.
    """

    def __init__(self, question: CommitQuestion, listener: ProgressListener) -> None:
        self._question = question
        self._listener = listener
        self._left_s = question.seconds
        self.bound = question.request.fail_if or _bound(LEAST_INCREASE)
        self.is_interrupted = self.is_over = False
        self.lost = ""

    def judge(self, commit: str, attempt: int) -> BoundStatus | None:
        """The answer of a commit; None if there is no time for one, or it was interrupted."""
        if self._left_s < ATTEMPT_S_MIN:
            self.is_over = True
            return None
        try:
            found = self._measured(commit, attempt)
        except (Interrupted, KeyboardInterrupt):  # The latter ends a build.
            self.is_interrupted = True
            return None
        except (HostLost, RecordError) as error:
            self.lost = str(error)
            return None
        subject = self._question.repository.subject(commit)
        self._listener.note(f"{commit[:12]} {subject}: {bound_sentence(found)}.")
        is_last = commit == self._question.commits[-1]
        if is_last and found.status is BoundStatus.EXCEEDED and not self._question.request.fail_if:
            assert found.ratio is not None, "it exceeds the bound"
            self.bound = _bound(max(LEAST_INCREASE, math.sqrt(found.ratio.value)))
            self._listener.note(f"Bad is half of that increase or more: {self.bound}.")
        return found.status

    def _measured(self, commit: str, attempt: int) -> BoundResult:
        asked = self._question
        request = updated(asked.request, fail_if=self.bound)
        self._listener.note(f"Building {commit[:12]}.")
        with (
            asked.repository.built(asked.good, request.build) as good,
            asked.repository.built(commit, request.build) as other,
        ):
            found_arms = [
                build.prepare(f"{name}={request.cmd}")
                for name, build in ((GOOD, good), (CANDIDATE, other))
            ]
            arms = [PreparedArm(one.arm(), one) for one in found_arms]
            arms_prepared, control = with_control(arms)
            step_s = asked.seconds / asked.steps_max
            config = CompareConfig(
                arms_prepared=arms_prepared,
                aa_control=control,
                workload=workload(request),
                mode=Mode.QUICK,
                plan=commit_plan(self.bound, attempt, min(self._left_s, step_s)),
                seed=asked.seed + attempt,
                cores=asked.cores,
                folder=asked.folder / f"{commit[:12]}-{attempt + 1}",
                version=asked.version,
                method=Method.PAIRED,
                one_load=True,
                noise_floors=noise_floors() if asked.host.is_local else {},
                host=asked.host,
                verb="bisect",
                request=request,
                bounds=(self.bound,),
                labels={"good": asked.good, "commit": commit},
            )
            began = time.monotonic()
            try:
                if not compare(config, self._listener):
                    raise Interrupted
            finally:
                self._left_s -= time.monotonic() - began
        (found,) = evaluate_bounds(config.folder, [self.bound])
        return found


def _bound(factor: float) -> str:
    return f"cost({CANDIDATE}) > {factor:.3f} x cost({GOOD})"


def _arm(text: str, folder: Path) -> PreparedArm:
    prepared = command.from_command(text, build_paths(), folder)
    return PreparedArm(prepared.arm(), prepared)


def commit_plan(bound: str, attempt: int, seconds: float) -> SamplingPlan:
    blocks = BLOCKS_LONG if attempt else BLOCKS
    plan = updated(deciding(SAMPLING_PLANS[Mode.QUICK]), blocks_max=blocks)
    plan = anytime(plan, seconds=seconds)
    return updated(plan, closed_loop_blocks=plan.blocks_max) if needs_closed_loop([bound]) else plan


def check_ref(given: str) -> None:
    """Refuses a baseline that is neither a release nor a commit, before anything is built."""
    if command.is_release(given):
        command.check_release(given)
        return
    if given.startswith(PATH_BEGINS):
        raise InputError(_no_run(given))
    try:
        command.resolve(given)
    except InputError as error:
        # A branch may have a slash in its name, too.
        if "/" in given or Path(given).is_dir():
            raise InputError(f"{_no_run(given)}, and it is no commit: {error}") from error
        raise


def check_commands(commands: Sequence[str], build: str) -> None:
    """Refuses commands that cannot be measured with a baseline, before anything is built."""
    _head(commands)
    command.read_command(*commands)
    command.build_words(build)


def _no_run(folder: str) -> str:
    missing = "it has no run.json" if Path(folder).is_dir() else "there is no such folder"
    return f"--baseline {folder} is not the folder of a run: {missing}"


@contextmanager
def baseline(
    given: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> Iterator[PreparedArm]:
    """Builds the working directory, and prepares the arm `base`: its command with another version.

    `given` is a release (a wheel's path, or `PACKAGE==VERSION`), which is installed, or a git
    ref, which is built in a folder of its own; an empty `build` builds nothing.
    """
    name, words = _head(commands)
    if build:
        listener.note(f"Building {name}: {build}.")
        command.run_build(build, command.HERE)
    if command.is_release(given):
        listener.note(f"Installing {BASE}: {Path(given).name}.")
        prepared = command.from_release(f"{BASE}={words}", given, build_paths())
        yield PreparedArm(prepared.arm(), prepared)
        return
    listener.note(f"Building {BASE} from {given}.")
    with command.checkout(given, build) as found:
        arm = _arm(f"{BASE}={words}", found.folder)
        listener.note(f"{BASE} is {found.commit[:12]}.")
        yield arm


def _head(commands: Sequence[str]) -> tuple[str, str]:
    if len(commands) != 1:
        raise InputError("--baseline needs one command: --cmd 'head=./server --port {port}'")
    name, _, words = commands[0].partition("=")
    if name == BASE:
        raise InputError(f"--cmd {name}=...: {BASE!r} is the baseline's name, choose another")
    return name, words
