"""The stopping rule depends on widths only, and only on those that more blocks reduce."""

from jissoku.inference import compare
from jissoku.model import Load, LoadLevel, Method
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
HEAVY = Load(rate_rps=20_000, level=LoadLevel.HEAVY)
TRUTHS = {name: TrueValues(cost_ns=5000) for name in "abc"}


def test_every_pair_has_a_width_at_every_load() -> None:
    run = factories.sliced("abc", loads=(LIGHT, HEAVY))
    found = compare.half_widths(run, factories.trials(run, TRUTHS, blocks=10))
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    assert set(found) == {(*pair, load) for pair in pairs for load in (LIGHT, HEAVY)}
    # 2.26 standard errors of 0.0099 / sqrt(10).
    assert all(0.003 < width < 0.014 for width in found.values())


def test_it_is_enough_when_the_widest_is_narrow_enough() -> None:
    run = factories.sliced("ab")
    trials = factories.trials(run, TRUTHS, blocks=10)
    (width,) = compare.half_widths(run, trials).values()
    assert compare.is_enough(run, trials, width)
    assert not compare.is_enough(run, trials, width * 0.99)
    assert compare.is_enough(run, (), 0.01), "nothing to wait for"


def test_it_is_not_enough_when_every_trial_was_rejected() -> None:
    run = factories.sliced("ab")
    trials = factories.trials(run, TRUTHS, blocks=10, solo_blocks=10)
    disturbed = [factories.rejected(trial) for trial in trials]
    assert compare.half_widths(run, disturbed) == {}
    assert not compare.is_enough(run, disturbed, 0.01)
    alone = [trial for trial in disturbed if not trial.kind.is_paired]
    assert alone
    assert compare.is_enough(run, alone, 0.01), "more blocks have no trial of both arms either"


def test_an_injected_effect_changes_nothing() -> None:
    run = factories.sliced("ab")
    equal = factories.trials(run, TRUTHS, blocks=10)
    other = factories.trials(
        run, {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=9000)}, blocks=10
    )
    one, two = (next(iter(compare.half_widths(run, t).values())) for t in (equal, other))
    assert abs(one - two) < 1e-4, "rounded nanoseconds apart"


def test_the_light_load_is_not_waited_for_unless_it_is_the_only_one() -> None:
    loud = {name: TrueValues(cost_ns=5000, costs_ns={1_000: 5000}) for name in "ab"}
    run = factories.sliced("ab", loads=(LIGHT, HEAVY))
    quiet = factories.trials(run, loud, blocks=10, noise=Noise(own=0.002))
    rough = factories.trials(run, loud, blocks=10, noise=Noise(own=0.08))
    trials = tuple((rough if trial.load_rps == 1_000 else quiet)[trial.index] for trial in quiet)
    assert compare.is_enough(run, trials, 0.01)
    alone = factories.sliced("ab", loads=(LIGHT,))
    assert not compare.is_enough(alone, [t for t in trials if t.load_rps == 1_000], 0.01)


def test_pairs_without_common_trials_are_not_waited_for() -> None:
    run = factories.run("abc", method=Method.PAIRED, loads=(HEAVY,), slice_ns=factories.TURN_NS)
    trials = factories.trials(run, TRUTHS, blocks=10, noise=Noise(own=0.002, alone=0.2))
    found = compare.half_widths(run, trials)
    assert {key[:2] for key in found} == {("b", "a"), ("c", "a")}
    assert compare.is_enough(run, trials, 0.01)


def test_a_run_of_single_targets_is_waited_for() -> None:
    run = factories.run("ab", method=Method.SINGLE, loads=(HEAVY,))
    trials = factories.trials(run, TRUTHS, blocks=10, solo_blocks=10, noise=Noise(alone=0.2))
    assert not compare.is_enough(run, trials, 0.01)
