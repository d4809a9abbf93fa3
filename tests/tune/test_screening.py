import math

import pytest

from jissoku.design import variants
from jissoku.design.variants import BASELINE
from jissoku.inference import ablation, ablation as stats
from jissoku.model import CounterReadings, Decision, Method, Trial
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues
from tests.tune.test_ablation import KNOB


@pytest.mark.parametrize("count", [6, 7, 11, 12, 17])
def test_every_knob_is_on_in_half_and_every_pair_in_a_quarter(count: int) -> None:
    knobs = [f"k{index}" for index in range(count)]
    found = variants.screening_runs(knobs)
    assert (found[0].name, found[0].knobs) == (BASELINE, ())
    assert len({one.name for one in found}) == len(found)
    size = 12 if count <= 11 else 2 ** math.ceil(math.log2(count + 1))
    assert len(found) == size
    for one in knobs:
        assert sum(one in run.knobs for run in found) == size / 2
        for other in knobs:
            if one < other:
                assert sum({one, other} <= set(run.knobs) for run in found) == size / 4


def seen(effects: dict[str, float], blocks: int = 2) -> dict[str, object]:
    combinations = variants.screening_runs(list(effects))
    run = factories.run([one.name for one in combinations], method=Method.PAIRED)
    truths = {
        one.name: TrueValues(cost_ns=10_000 * math.prod(effects[knob] for knob in one.knobs))
        for one in combinations
    }
    trials = factories.trials(
        run, truths, blocks=blocks, solo_blocks=0, check_blocks=0, noise=Noise(own=0.0035)
    )
    switched = {one.name: one.knobs for one in combinations if one.knobs}
    return {"run": run, "trials": trials, "switched": switched, "knobs": list(effects)}


INJECTED = {"a": 0.9, "b": 1.0, "c": 1.0, "d": 0.97, "e": 1.0, "f": 1.05, "g": 1.0}


def test_injected_effects_are_estimated_and_the_idle_ones_left_out() -> None:
    found = stats.effects(**seen(INJECTED))  # type: ignore[arg-type]
    assert found is not None
    for knob, effect in INJECTED.items():
        assert math.isclose(found[knob].value, effect, rel_tol=0.015)
    kept = {knob for knob, effect in found.items() if stats.is_worth_it(effect, 0.01)}
    assert {"a", "d"} <= kept
    assert "f" not in kept
    assert len(kept) <= 4


def test_too_few_paired_trials_exclude_nothing() -> None:
    given = seen(INJECTED, blocks=1)
    trials = given["trials"]
    assert isinstance(trials, tuple)
    few: tuple[Trial, ...] = trials[: len(INJECTED)]
    assert stats.effects(**{**given, "trials": few}) is None  # type: ignore[arg-type]
    counts = {KNOB.name: CounterReadings(requests=400)}
    assert ablation.screened_out([KNOB], counts, None, 0.01) == ()


def test_a_knob_that_breaks_the_target_is_not_in_the_design() -> None:
    counts = {KNOB.name: CounterReadings(requests=0, syscalls_reason="it died")}
    (result,) = ablation.screened_out([KNOB], counts, None, 0.01)
    assert (result.decision, result.sentence) == (Decision.BROKEN, "it died")
