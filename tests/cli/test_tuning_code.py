"""Exit codes of `tune` and `explain --verify`: success if something was proven, or all decided."""

import pytest

from jissoku.cli.explain import tuning_code
from jissoku.cli.frame import ExitCode
from jissoku.model import Decision, KnobResult, TuningResult
from jissoku.targets import catalogue

KNOB = catalogue.recipes()["nginx"].knob[0]


@pytest.mark.parametrize(
    ("decisions", "proven", "code"),
    [
        ([Decision.ACCEPTED, Decision.UNDECIDED], True, ExitCode.OK),
        ([Decision.NO_GAIN, Decision.COUNTER_UNCHANGED], False, ExitCode.OK),
        ([Decision.NO_GAIN, Decision.UNDECIDED], False, ExitCode.UNDECIDED),
        ([Decision.ACCEPTED], False, ExitCode.UNDECIDED),
        ([Decision.COUNTER_UNAVAILABLE], False, ExitCode.UNDECIDED),
        ([Decision.BROKEN], False, ExitCode.FAILED),
        ([], False, ExitCode.OK),
    ],
)
def test_what_was_proven_or_decided_is_a_success(
    decisions: list[Decision],
    proven: bool,  # noqa: FBT001
    code: ExitCode,
) -> None:
    found = TuningResult(
        target="nginx",
        path="/",
        jissoku="1",
        seed=1,
        results=tuple(KnobResult(knob=KNOB, decision=one) for one in decisions),
        proven=proven,
        finished=True,
    )
    assert tuning_code(found) == code
