"""Two runs side by side: what may be said about them, or why nothing may."""

import shlex
from collections.abc import Iterable, Sequence

import msgspec

from jissoku.model import FULL_LOAD, LoadLevel, Origin
from jissoku.model.history import ArmRow, IndexedRun
from jissoku.model.history_answer import ArmChange, Confirmation, RunDifference, Tau
from jissoku.model.run import short_version
from jissoku.model.updated import updated
from jissoku.stats.across_runs import breaks, common_loads, difference, obstacles, unchanged_arms


def run_difference(first: IndexedRun, second: IndexedRun, tau: Tau) -> RunDifference:
    """All arms of two runs by the rules of docs/history.md.

    Args:
        first: The earlier run.
        second: The later one.
        tau: Of their class of machines.
    """
    reasons = list(obstacles(first, second))
    unchanged = unchanged_arms(first, second)
    if not unchanged:
        reasons.append("no arm is the same program in both")
    pairs = _named_alike(first, second)
    changes = [
        _with_confirmation(change, first, second)
        for load in common_loads(first, second)
        for pair in pairs
        if not reasons and (change := difference(first, second, pair, load, tau))
    ]
    if not (reasons or changes):
        reasons.append("no arm met an unchanged one at a common load in both")
    names = [{arm.arm for arm in run.arms} for run in (first, second)]
    return RunDifference(
        runs=(first.row, second.row),
        folders=(first.folder, second.folder),
        obstacles=tuple(reasons),
        breaks=breaks(first, second),
        unchanged=tuple(pair[1] for pair in unchanged),
        only=(tuple(sorted(names[0] - names[1])), tuple(sorted(names[1] - names[0]))),
        changes=tuple(changes),
        tau=tau,
        race=race([first, second]),
        loads=(first.loads, second.loads),
        unfinished=(first.unfinished, second.unfinished),
    )


def race(runs: Sequence[IndexedRun], targets: Iterable[str] = ()) -> str:
    """The command that measures arms of several runs together, with the last one's workload.

    Targets that a recipe starts are named. Commands and URLs are not in the index: COMMAND and URL
    stand for what the user gave. The rate is the given one, where there was one.
    """
    wanted = set(targets)
    arms: dict[str, ArmRow] = {}
    for run in runs:
        arms |= {
            arm.arm: arm
            for arm in run.arms
            if not (arm.is_floor or arm.is_control) and (not wanted or arm.target in wanted)
        }
    words = [word for name, arm in arms.items() for word in _words(name, arm)]
    return _compare([*words, *_asked(runs[-1])])


def _with_confirmation(change: ArmChange, first: IndexedRun, second: IndexedRun) -> ArmChange:
    if not change.is_suspected:
        return change
    return updated(change, confirmation=confirmation(first, second, change.arm))


def confirmation(earlier: IndexedRun, later: IndexedRun, name: str) -> Confirmation | None:
    """The run of both programs of an arm that changed.

    A recipe's target is named with its versions; a command is compared with itself at the earlier
    run's commit, where both runs have the label `commit`.
    """
    before, after = earlier.arm(name), later.arm(name)
    if before is None or after is None or before.program == after.program:
        return None
    words, row = _asked(later), later.row
    if after.origin == Origin.RECIPE:
        versions = short_version(before.version), short_version(after.version)
        if versions[0] == versions[1]:
            return None
        arms = f"{name}-{versions[0]}", f"{name}-{versions[1]}"
        named = [f"{arm}={after.target}@{v}" for arm, v in zip(arms, versions, strict=True)]
        return Confirmation(command=_compare([*map(shlex.quote, named), *words]), arms=arms)
    commits = [msgspec.json.decode(one.labels).get("commit") for one in (earlier.row, row)]
    if after.origin == Origin.COMMAND and None not in commits and commits[0] != commits[1]:
        command = list(_words("head", after))
        command += ["--baseline", shlex.quote(commits[0])]
        return Confirmation(command=_compare([*command, *words]), arms=("base", "head"))
    return None


def _compare(words: Sequence[str]) -> str:
    return " ".join(["jissoku compare", *words])


def _asked(run: IndexedRun) -> list[str]:
    """The options that ask for a run's workload, and for its rate where one was given."""
    row = run.row
    words = ["--path", shlex.quote(row.path)] if row.path != "/" else []
    words += ["-c", str(row.connections)]
    given = [load.rate_rps for load in run.loads if load.level is LoadLevel.GIVEN]
    words += ["-R", str(given[0])] if given[:1] != [None] and len(given) == 1 else []
    words += [row.workload_options] if row.workload_options else []
    # A pipeline is a closed loop.
    is_closed = run.loads == (FULL_LOAD,) and "--pipeline" not in row.workload_options
    return [*words, "--closed-loop"] if is_closed else words


def _words(name: str, arm: ArmRow) -> tuple[str, ...]:
    if arm.origin == Origin.RECIPE:
        return (shlex.quote(name if name == arm.target else f"{name}={arm.target}"),)
    if arm.origin == Origin.URL:
        return ("--url", shlex.quote(f"{name}=URL"))
    return ("--cmd", shlex.quote(f"{name}={arm.command}") if arm.command else f"'{name}=COMMAND'")


def _named_alike(first: IndexedRun, second: IndexedRun) -> tuple[tuple[str, str], ...]:
    known = {arm.arm for arm in first.arms if not arm.is_control}
    return tuple(
        (arm.arm, arm.arm) for arm in second.arms if arm.arm in known and not arm.is_control
    )
