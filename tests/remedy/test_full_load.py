import dataclasses

import pytest

from jissoku.design import ablation as plan
from jissoku.model import Cores, Kind, Origin, Start, Trial, Tuning, Verdict
from jissoku.pipeline import full_load as stage, subject
from jissoku.stats import ablation, full_load
from jissoku.targets import catalogue
from jissoku.targets.prepare import Prepared
from tests.stats import made
from tests.stats.made import Noise, Truth

ARMS = [plan.AS_IT_IS, "with workers", "with nothing"]
TRUTHS = {
    plan.AS_IT_IS: Truth(cost_ns=400_000, rate_rps=2_000),
    "with workers": Truth(cost_ns=400_000, rate_rps=3_300),
    "with nothing": Truth(cost_ns=400_000, rate_rps=2_000),
}
RUN = dataclasses.replace(made.run(ARMS), cores=Cores(server=(0, 1), stopwatch=(0, 1), shared=True))


def trials(*, generator: float = 0.05) -> tuple[Trial, ...]:
    """Closed loops only, in which the stopwatch's busiest thread was so busy."""
    found = made.trials(RUN, TRUTHS, blocks=12, solo_blocks=12, noise=Noise(block=0.0, solo=0.02))
    seen = dataclasses.replace(made.QUIET, spins=False, generator_busy_fraction=generator)
    return tuple(
        dataclasses.replace(trial, conditions=seen)
        for trial in found
        if trial.kind is Kind.SOLO_RATE
    )


def replace_cores(trial: Trial, cores: float) -> Trial:
    assert trial.conditions is not None
    seen = dataclasses.replace(trial.conditions, generator_cores=cores)
    return dataclasses.replace(trial, conditions=seen)


def test_a_higher_rate_is_found_and_an_equal_one_is_not() -> None:
    found = full_load.against_baseline(RUN, trials())
    assert ablation.holds(found["with workers"])
    ratio = found["with workers"].ratio
    assert ratio is not None
    assert ratio.low < 2_000 / 3_300 < ratio.high
    assert not ablation.holds(found["with nothing"])


def test_the_cores_that_were_kept_busy_are_the_counter() -> None:
    before = ablation.reading(full_load.counters(trials(), plan.AS_IT_IS), "cores")
    after = ablation.reading(full_load.counters(trials(), "with workers"), "cores")
    assert before == pytest.approx(0.8, rel=0.1)
    assert after == pytest.approx(1.32, rel=0.1)
    assert ablation.reading(full_load.counters((), plan.AS_IT_IS), "cores") is None


@pytest.mark.parametrize(("generator", "stands"), [(0.02, True), (0.3, False)])
def test_a_rate_stands_where_the_stopwatch_takes_little(generator: float, *, stands: bool) -> None:
    seen = trials(generator=generator)
    times = full_load.times_the_stopwatch(RUN, seen)
    assert times is not None
    assert times == pytest.approx(0.8 / (2 * generator), rel=0.1)
    exact = [replace_cores(trial, generator) for trial in seen]
    assert full_load.times_the_stopwatch(RUN, exact) == pytest.approx(2 * times)
    found = full_load.doubted(full_load.against_baseline(RUN, seen)["with workers"], times)
    assert (found.verdict is Verdict.FASTER) is stands
    if not stands:
        assert "ask for something dearer" in found.remarks[0]


def test_with_one_core_nothing_is_tried_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = catalogue.recipes()["nginx"]
    base = Prepared(name="it", origin=Origin.RECIPE, version="1", start=Start(command=("it",)))
    workers = [knob for knob in recipe.knob if knob.name == "worker_processes"]
    tuned = dataclasses.replace(subject.of_recipe(recipe, recipe.knob, base), knobs=tuple(workers))
    monkeypatch.setattr("jissoku.pipeline.full_load.allowed", lambda: (0,))
    told = Tuning(target="it", path="/", jissoku="1", seed=1, remedies=())
    found = stage.tune(tuned, None, told, None)  # type: ignore[arg-type]
    assert [remedy.sentence for remedy in found.remedies] == ["there is one core only"]


def test_a_recipe_that_follows_the_cores_need_not_be_told_to() -> None:
    recipe = catalogue.recipes()["nginx"]
    base = Prepared(
        name="nginx",
        origin=Origin.RECIPE,
        version="1",
        start=Start(command=("nginx",)),
        config=recipe.config,
    )
    found = subject.of_recipe(recipe, recipe.knob, base)
    assert found.skipped["worker_processes"] == subject.SO_ALREADY
