"""Exit codes of `tune` and `explain --verify`: success if something was proven, or all decided."""

import pytest
from click.testing import CliRunner

from jissoku.cli.explain import tune, tuning_code
from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError
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


def test_an_unknown_knob_is_answered_with_those_that_resemble_it() -> None:
    found = CliRunner().invoke(tune, ["nginx", "--knobs", "keepalive_request"])
    assert isinstance(found.exception, InputError)
    message = str(found.exception)
    assert "keepalive_requests" in message
    assert message.count("_") < 8, "not all of them"
