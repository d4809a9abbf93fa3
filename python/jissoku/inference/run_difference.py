"""Two runs side by side: what may be said about them, or why nothing may."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from jissoku.inference.across_runs import (
    breaks,
    common_loads,
    difference,
    obstacles,
    unchanged_arms,
)
from jissoku.model import Origin
from jissoku.model.history import ArmRow, IndexedRun
from jissoku.model.history_answer import ArmChange, Confirmation, RunDifference, Tau
from jissoku.model.run import short_version
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest

# Fields of a request that name arms.
KINDS = ("arms", "cmd", "url")


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


def race(runs: Sequence[IndexedRun], targets: Iterable[str] = ()) -> ComparisonRequest:
    """Measures arms of several runs together, asked as the last run was, without its bounds."""
    wanted = set(targets)
    arms: dict[str, _Word] = {}
    for run in runs:
        given = _given(run)
        arms |= {
            arm.arm: given.get(arm.arm) or _Word("arms", _recipe_word(arm))
            for arm in run.arms
            if not (arm.is_floor or arm.is_control) and (not wanted or arm.target in wanted)
        }
    return _asked(runs[-1], arms.values())


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
    if after.origin == Origin.RECIPE:
        versions = short_version(before.version), short_version(after.version)
        if versions[0] == versions[1]:
            return None
        arms = f"{name}-{versions[0]}", f"{name}-{versions[1]}"
        pairs = zip(arms, versions, strict=True)
        words = [_Word("arms", f"{arm}={after.target}@{version}") for arm, version in pairs]
        return Confirmation(request=_asked(later, words), arms=arms)
    commits = [msgspec.json.decode(one.row.labels).get("commit") for one in (earlier, later)]
    if after.origin == Origin.COMMAND and None not in commits and commits[0] != commits[1]:
        found = _given(later).get(name) or _Word("cmd", f"{name}=COMMAND")
        command = found.text.partition("=")[2]
        request = updated(
            _asked(later, [_Word("cmd", f"head={command}")]),
            baseline=commits[0],
            build=later.row.asked.build,
        )
        return Confirmation(request=request, arms=("base", "head"))
    return None


class _Word(NamedTuple):
    """An arm as it is given: a field of a request, and its text."""

    field: str
    text: str


def _given(run: IndexedRun) -> dict[str, _Word]:
    """The arms that a run was asked for by name, by the name that they have in it."""
    found = {}
    for field in KINDS:
        for text in getattr(run.row.asked, field):
            name, equals, _ = text.partition("=")
            # `granian@2.7.1` is the arm granian-2.7.1.
            found[name if equals else text.replace("@", "-")] = _Word(field, text)
    return found


def _recipe_word(arm: ArmRow) -> str:
    return arm.arm if arm.arm == arm.target else f"{arm.arm}={arm.target}"


def _asked(run: IndexedRun, words: Collection[_Word]) -> ComparisonRequest:
    """What a run was asked, of other arms, without what was asked about its own."""
    arms, cmd, url = (tuple(one.text for one in words if one.field == field) for field in KINDS)
    return updated(
        run.row.asked,
        arms=arms,
        cmd=cmd,
        url=url,
        group="",
        label=(),
        baseline=None,
        build="",
        fail_if=(),
        confirm=False,
        profile=False,
    )


def _named_alike(first: IndexedRun, second: IndexedRun) -> tuple[tuple[str, str], ...]:
    known = {arm.arm for arm in first.arms if not arm.is_control}
    return tuple(
        (arm.arm, arm.arm) for arm in second.arms if arm.arm in known and not arm.is_control
    )
