"""Finds out what an arm does more of, once a run has proven that it uses more CPU time."""

from collections.abc import Sequence

from jissoku import records
from jissoku.inference.bounds import read_bound
from jissoku.inference.profile import difference, summarise
from jissoku.measure.compare_config import CompareConfig
from jissoku.measure.counting import count_arms
from jissoku.measure.progress import ProgressListener
from jissoku.measure.trial_runner import PreparedArm
from jissoku.model.bound import BoundResult, BoundStatus
from jissoku.model.profile import ProfileDifference
from jissoku.report.causes import Causes, causes


def find_causes(
    found: Sequence[BoundResult], config: CompareConfig, listener: ProgressListener
) -> Causes | None:
    """Counts the system calls of the two arms of the first bound on cost that is exceeded.

    Each is started once more, for some seconds. With profiles of both in the run, functions are
    compared too.

    Returns:
        None without such a bound, or if an arm is an external server.
    """
    pair = next(filter(None, (_pair(one, config) for one in found)), None)
    if pair is None:
        return None
    arm, against = (one.arm.name for one in pair)
    listener.note(f"Counting system calls of {arm} and {against}.")
    readings = count_arms(pair, config.workload, config.cores, f"{config.seed}/causes")
    return causes(arm, against, readings, _profiles(config, against, arm))


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


def _profiles(config: CompareConfig, first: str, second: str) -> ProfileDifference | None:
    known = {profile.target: profile for profile in records.read_profiles(config.folder)}
    if first not in known or second not in known:
        return None
    return difference(summarise(known[first]), summarise(known[second]))
