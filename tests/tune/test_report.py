import json
from typing import Any

import pytest

from jissoku.model import (
    ChangeKind,
    Comparison,
    Decision,
    Estimate,
    Knob,
    KnobChange,
    KnobGoal,
    KnobResult,
    TuningResult,
    Verdict,
)
from jissoku.model.updated import updated
from jissoku.report import tuning_to_json, tuning_to_text

KNOB = Knob(
    name="cache",
    why="Files stay open. A changed one is served as it was.",
    counter="openat",
    change=(KnobChange(kind=ChangeKind.DIRECTIVE, name="open_file_cache", value="max=10"),),
)
CHEAPER = Comparison(
    arm="with cache",
    against="as it is",
    verdict=Verdict.LOWER,
    proven=True,
    ratio=Estimate(value=0.85, low=0.83, high=0.87, blocks=9, sd_log=0.01),
)
REMEDY = KnobResult(
    knob=KNOB,
    decision=Decision.ACCEPTED,
    alone=CHEAPER,
    before=1.0,
    after=0.0,
    sentence="its effect and its counter are as predicted",
)
TUNING = TuningResult(
    target="nginx with nginx.conf",
    path="/",
    jissoku="0.1.0",
    seed=1,
    results=(REMEDY,),
    skipped={"sendfile": "is so already"},
    combined=CHEAPER,
    proven=True,
    kept=("cache",),
    diff="--- nginx.conf\n+++ nginx.conf (proven)\n+open_file_cache max=10;\n",
)


def verdict(tuning: TuningResult) -> list[str]:
    """The last paragraph."""
    return tuning_to_text(tuning).rstrip("\n").rpartition("\n\n")[2].splitlines()


def test_a_proven_change_is_reported_with_its_effect_its_counter_and_its_price() -> None:
    text = tuning_to_text(TUNING)
    (last,) = verdict(TUNING)
    assert last.startswith("Proven for nginx with nginx.conf: cache 0.85")
    assert "openat 1.00 to 0" in text
    assert "A changed one is served as it was." in text
    assert "\n+open_file_cache max=10;\n" in text
    assert "Not tried: sendfile (is so already)." in text


def test_the_same_words_are_said_once() -> None:
    skipped = {"sendfile": "is so already", "aio": "is so already", "gzip": "needs files"}
    unlike = updated(REMEDY, decision=Decision.UNDECIDED, sentence="it varies")
    others = tuple(updated(unlike, knob=updated(KNOB, name=name)) for name in ("a", "b"))
    tuning = updated(TUNING, results=others, skipped=skipped, kept=(), proven=False, diff="")
    text = tuning_to_text(tuning)
    assert "a, b: undecided. It varies.\n" in text
    assert "Not tried: sendfile, aio (is so already); gzip (needs files).\n" in text


def test_a_rate_on_shared_cores_is_stamped_so() -> None:
    knob = updated(KNOB, name="workers", why="All of them work.", objective=KnobGoal.RATE)
    rate = updated(CHEAPER, ratio=Estimate(value=0.6, low=0.58, high=0.62, blocks=12, sd_log=0.01))
    results = (REMEDY, updated(REMEDY, knob=knob, alone=rate))
    tuning = updated(TUNING, results=results, full_load=rate, kept=("cache", "workers"))
    text = tuning_to_text(tuning)
    (last,) = verdict(tuning)
    assert "cache 0.85" in last
    assert "the CPU per request (uses less CPU); workers 0.6" in last
    assert "Of workers: the time per answer, at full load on all cores" in text
    assert "All of them work." in text
    assert "not confirmed" not in text
    measured, *_ = verdict(updated(tuning, kept=("cache",)))[1:]
    assert measured.startswith("Measured, and not confirmed on new blocks: workers 0.6")


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, "pays, confirmed"),
        ({"kept": (), "proven": False, "diff": ""}, "pays, not confirmed"),
        ({"kept": (), "proven": False, "finished": False}, "pays, not confirmed"),
    ],
)
def test_a_knob_that_pays_is_marked_as_confirmed_or_not(
    changes: dict[str, Any], decision: str
) -> None:
    lines = tuning_to_text(updated(TUNING, **changes)).splitlines()
    row = next(line for line in lines if line.startswith("cache "))
    assert row.endswith(f"  {decision}")


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision.NO_GAIN, "No knob of nginx with nginx.conf reduces"),
        (Decision.UNDECIDED, "some are undecided"),
        (Decision.BROKEN, "some cannot be measured"),
        (Decision.ACCEPTED, "not confirmed on new blocks"),
    ],
)
def test_what_is_not_proven_is_not_reported_as_proven(decision: Decision, said: str) -> None:
    results = (updated(REMEDY, decision=decision),)
    tuning = updated(TUNING, results=results, kept=(), proven=False, diff="")
    assert said in verdict(tuning)[0]
    assert "+++" not in tuning_to_text(tuning)


def test_a_large_effect_that_is_not_confirmed_is_printed_with_the_command_that_confirms_it() -> (
    None
):
    large = updated(CHEAPER, ratio=Estimate(value=0.045, low=0.04, high=0.05, blocks=4, sd_log=0.1))
    failed = updated(CHEAPER, verdict=Verdict.FAILED, ratio=None, proven=False)
    tuning = updated(
        TUNING,
        results=(updated(REMEDY, alone=large),),
        combined=failed,
        kept=(),
        proven=False,
        diff="",
        confirm="jissoku tune nginx --knobs cache --standard",
    )
    measured, command = verdict(tuning)
    assert "cache 0.045 \N{MULTIPLICATION SIGN} [0.040, 0.050], alone" in measured
    assert "failed" in measured
    assert command == "To confirm: jissoku tune nginx --knobs cache --standard"


def test_a_counter_that_was_not_watched_is_no_zero() -> None:
    blind = updated(REMEDY, before=None, after=None, decision=Decision.COUNTER_UNAVAILABLE)
    assert "openat \N{EN DASH} to \N{EN DASH}" in tuning_to_text(
        updated(TUNING, results=(blind,), proven=False, diff="")
    )


def test_an_interrupted_tuning_proves_nothing() -> None:
    tuning = updated(TUNING, finished=False, kept=(), proven=False, diff="")
    first, second = verdict(tuning)
    assert first.endswith("was interrupted; what it measured until then stands.")
    assert second.startswith("Measured, and not confirmed on new blocks: cache 0.85")


def test_what_a_file_name_holds_is_made_harmless() -> None:
    assert "\x1b" not in tuning_to_text(updated(TUNING, target="nginx with \x1b[31m.conf"))


def test_the_whole_is_json() -> None:
    found = json.loads(tuning_to_json(TUNING))
    assert found["schema"] == "jissoku.tuning/3"
    assert found["results"][0]["alone"]["ratio"]["value"] == 0.85


@pytest.mark.parametrize(
    ("counter", "text"),
    [
        ("cores", "cores 1.00 to 0 in all  "),
        ("migrations", "migrations 1.00 to 0 a second  "),
        ("connect", "connect 1.00 to 0  "),
    ],
)
def test_a_counter_is_shown_with_its_unit(counter: str, text: str) -> None:
    knob = updated(KNOB, counter=counter)
    assert text in tuning_to_text(updated(TUNING, results=(updated(REMEDY, knob=knob),)))


def test_the_changes_of_the_sandbox_are_in_the_report_alone() -> None:
    tuning = updated(TUNING, sandbox=("listen 80: a free port",))
    assert "listen 80: a free port." in tuning_to_text(tuning)
    assert "listen 80" not in tuning_to_text(tuning, has_sandbox=False)
