"""The pairing method of a run, and its reason in words (decision 18)."""

from collections.abc import Sequence

from jissoku.model import Arm, Method


def choose(
    arms: Sequence[Arm], *, is_closed: bool, asked: Method | None = None
) -> tuple[Method, str]:
    """Paired trials for arms that run the same program, time-sliced trials for all others.

    Two copies of one program in similar configurations disturb each other equally, so the
    disturbance of a paired trial cancels; two different programs change each other's batching and
    pre-emption. In a closed loop each slice would begin and end in a burst, so different programs
    run it alone.

    Args:
        arms: All of the run, floor and A/A control among them.
        is_closed: Whether each connection sends its next request right after a response.
        asked: The user's choice, which overrides the rule.
    """
    if asked is not None:
        return asked, "given on the command line"
    programs = {arm.binary_sha256 or arm.name for arm in arms}
    if len(programs) == 1 and len({arm.target for arm in arms}) == 1:
        return Method.PAIRED, "all arms run the same program of one recipe"
    if is_closed:
        return Method.SINGLE, "a closed loop cannot be time-sliced"
    return Method.TIME_SLICED, "the arms run different programs"
