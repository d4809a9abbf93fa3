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
    KnobResult,
    Objective,
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


def test_a_proven_change_is_reported_with_its_effect_its_counter_and_its_price() -> None:
    text = tuning_to_text(TUNING)
    assert text.startswith("Proven for nginx with nginx.conf: cache, together 0.85")
    assert "openat 1.00 to 0" in text
    assert "A changed one is served as it was." in text
    assert text.endswith("+open_file_cache max=10;\n")
    assert "sendfile: not tried; it is so already." in text


def test_a_rate_on_shared_cores_is_stamped_so() -> None:
    knob = updated(KNOB, name="workers", why="All of them work.", objective=Objective.RATE)
    rate = updated(CHEAPER, ratio=Estimate(value=0.6, low=0.58, high=0.62, blocks=12, sd_log=0.01))
    results = (REMEDY, updated(REMEDY, knob=knob, alone=rate))
    tuning = updated(TUNING, results=results, full_load=rate, kept=("cache", "workers"))
    text = tuning_to_text(tuning)
    first = text.splitlines()[0]
    assert "cache, together 0.85" in first
    assert "the CPU per request (uses less CPU); workers, together 0.6" in first
    assert "Of workers it is the time per answer, shared cores" in text
    assert "All of them work." in text
    assert "Not confirmed" not in text
    assert "workers: pays, confirmed on new blocks. Its effect" in text
    text = tuning_to_text(updated(tuning, kept=("cache",)))
    assert "Not confirmed on new blocks, so not in the diff: workers.\n" in text


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, "pays, confirmed on new blocks"),
        ({"kept": (), "proven": False, "diff": ""}, "pays, not confirmed on new blocks"),
        ({"kept": (), "proven": False, "finished": False}, "pays, not confirmed on new blocks"),
    ],
)
def test_a_knob_that_pays_is_marked_as_confirmed_or_not(
    changes: dict[str, Any], decision: str
) -> None:
    lines = tuning_to_text(updated(TUNING, **changes)).splitlines()
    row = next(line for line in lines if line.startswith("cache "))
    assert row.endswith(f"  {decision}")
    assert f"cache: {decision}. Its effect and its counter are as predicted." in lines


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
    text = tuning_to_text(updated(TUNING, results=results, proven=False, diff=""))
    assert said in text.splitlines()[0]
    assert "+++" not in text


def test_a_counter_that_was_not_watched_is_no_zero() -> None:
    blind = updated(REMEDY, before=None, after=None, decision=Decision.COUNTER_UNAVAILABLE)
    assert "openat \N{EN DASH} to \N{EN DASH}" in tuning_to_text(
        updated(TUNING, results=(blind,), proven=False, diff="")
    )


def test_an_interrupted_tuning_proves_nothing() -> None:
    assert "interrupted" in tuning_to_text(updated(TUNING, finished=False)).splitlines()[0]


def test_what_a_file_name_holds_is_made_harmless() -> None:
    assert "\x1b" not in tuning_to_text(updated(TUNING, target="nginx with \x1b[31m.conf"))


def test_the_whole_is_json() -> None:
    found = json.loads(tuning_to_json(TUNING))
    assert found["schema"] == "jissoku.tuning/2"
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
