"""The pairing method depends on the arms, not on their results."""

import pytest

from jissoku.design.schedule import choose_method
from jissoku.model import Arm, Method
from tests.inference import factories


def arm(name: str, target: str, binary: str = "") -> Arm:
    return factories.arm(name, target=target, binary_sha256=binary)


LIKE = [arm("base", "nginx", "x1"), arm("head", "nginx", "x1")]
UNLIKE = [arm("nginx", "nginx", "x1"), arm("go", "go", "x2")]


@pytest.mark.parametrize(
    ("arms", "method"),
    [
        (LIKE, Method.PAIRED),
        (UNLIKE, Method.TIME_SLICED),
        ([arm("a", "nginx", "x1"), arm("b", "nginx", "x2")], Method.TIME_SLICED),  # two builds
        (
            [arm("a", "go", "x1"), arm("b", "node", "x1")],
            Method.TIME_SLICED,
        ),  # one shell starts both
        ([*LIKE, arm("floor", "floor", "x9")], Method.TIME_SLICED),  # the floor is another program
        ([arm("one", "one"), arm("two", "two")], Method.TIME_SLICED),  # binaries that are not known
    ],
)
def test_like_arms_run_at_the_same_time_and_others_in_turns(
    arms: list[Arm], method: Method
) -> None:
    found, reason = choose_method(arms, is_closed=False)
    assert found is method
    assert reason


def test_in_a_closed_loop_different_programs_run_alone() -> None:
    assert choose_method(UNLIKE, is_closed=True)[0] is Method.SINGLE
    assert choose_method(LIKE, is_closed=True)[0] is Method.PAIRED


@pytest.mark.parametrize("asked", list(Method))
def test_what_is_asked_for_is_done(asked: Method) -> None:
    assert choose_method(UNLIKE, is_closed=False, asked=asked) == (
        asked,
        "given on the command line",
    )


def test_names_and_order_do_not_matter() -> None:
    renamed = [arm("z", "go", "x2"), arm("a", "nginx", "x1")]
    assert choose_method(renamed, is_closed=False) == choose_method(UNLIKE, is_closed=False)
