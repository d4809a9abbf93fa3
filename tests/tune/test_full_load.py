from types import SimpleNamespace

import pytest

from jissoku.design import variants as plan
from jissoku.inference import ablation
from jissoku.measure import knob_changes, tune as stage
from jissoku.measure.host import LocalHost
from jissoku.model import (
    CoreAssignment,
    Metric,
    Origin,
    StartCommand,
    Trial,
    TrialKind,
    TuningResult,
    Verdict,
)
from jissoku.model.run import LoadHost, NetworkPath
from jissoku.model.updated import updated
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues

ARMS = [plan.BASELINE, "with workers", "with nothing"]
TRUTHS = {
    plan.BASELINE: TrueValues(cost_ns=400_000, rate_rps=2_000),
    "with workers": TrueValues(cost_ns=400_000, rate_rps=3_300),
    "with nothing": TrueValues(cost_ns=400_000, rate_rps=2_000),
}
RUN = updated(
    factories.run(ARMS), cores=CoreAssignment(server=(0, 1), generator=(0, 1), shared=True)
)


def trials(*, generator: float = 0.05, truths: dict[str, TrueValues] = TRUTHS) -> tuple[Trial, ...]:
    """Closed loops only, in which the load generator's busiest thread was so busy."""
    found = factories.trials(
        RUN, truths, blocks=12, solo_blocks=12, noise=Noise(block=0.0, alone=0.02)
    )
    seen = updated(factories.QUIET, generator_busy_polls=False, generator_busy_fraction=generator)
    return tuple(
        updated(trial, conditions=seen) for trial in found if trial.kind is TrialKind.CLOSED_LOOP
    )


def replace_cores(trial: Trial, cores: float) -> Trial:
    assert trial.conditions is not None
    seen = updated(trial.conditions, generator_cpu_cores=cores)
    return updated(trial, conditions=seen)


def test_a_higher_rate_is_found_and_an_equal_one_is_not() -> None:
    found = ablation.rates_against_baseline(RUN, trials())
    assert ablation.is_confirmed(found["with workers"])
    ratio = found["with workers"].ratio
    assert ratio is not None
    assert ratio.low < 2_000 / 3_300 < ratio.high
    assert not ablation.is_confirmed(found["with nothing"])


def test_the_cores_that_were_kept_busy_are_the_counter() -> None:
    before = ablation.counter_value(ablation.counters(trials(), plan.BASELINE), "cores")
    after = ablation.counter_value(ablation.counters(trials(), "with workers"), "cores")
    assert before == pytest.approx(0.8, rel=0.1)
    assert after == pytest.approx(1.32, rel=0.1)
    assert ablation.counter_value(ablation.counters((), plan.BASELINE), "cores") is None


def test_one_block_shows_that_a_rate_says_nothing_of_the_server() -> None:
    first = [trial for trial in trials(generator=0.3) if trial.block == 0]
    found = ablation.rates_against_baseline(RUN, first)
    assert {one.verdict for one in found.values()} == {Verdict.INVALID}
    first = [trial for trial in trials() if trial.block == 0]
    found = ablation.rates_against_baseline(RUN, first)
    assert {one.verdict for one in found.values()} == {Verdict.INCONCLUSIVE}


@pytest.mark.parametrize(("generator", "stands"), [(0.02, True), (0.3, False)])
def test_a_rate_counts_where_the_load_generator_uses_little(
    generator: float, *, stands: bool
) -> None:
    seen = trials(generator=generator)
    times = ablation.generator_headroom(RUN, seen)
    assert times is not None
    assert times == pytest.approx(0.8 / (2 * generator), rel=0.1)
    exact = [replace_cores(trial, generator) for trial in seen]
    assert ablation.generator_headroom(RUN, exact) == pytest.approx(2 * times)
    found = ablation.rates_against_baseline(RUN, seen)["with workers"]
    assert (found.verdict is Verdict.LOWER) is stands
    if not stands:
        assert "ask for something dearer" in found.remarks[0]


def test_a_rate_counts_where_the_server_waits_and_the_cores_are_idle() -> None:
    """An answer of 20 ms costs little, and the load generator still less of the idle cores."""
    waits = {
        name: TrueValues(cost_ns=400_000, rate_rps=true.rate_rps / 40)
        for name, true in TRUTHS.items()
    }
    found = ablation.rates_against_baseline(RUN, trials(generator=0.01, truths=waits))
    assert ablation.is_confirmed(found["with workers"])


def test_a_load_on_another_host_says_nothing_where_it_was_the_limit() -> None:
    """It shares no cores with the server, so how much it uses does not matter otherwise."""
    load = LoadHost(machine=RUN.machine, path=NetworkPath.WIRE, round_trip_ns=100_000)
    run = updated(RUN, load_host=load, cores=CoreAssignment(server=(0, 1), generator=(0, 1)))
    found = ablation.rates_against_baseline(run, trials(generator=0.5))
    assert ablation.is_confirmed(found["with workers"])
    found = ablation.rates_against_baseline(run, trials(generator=0.99))
    assert {one.verdict for one in found.values()} == {Verdict.INVALID}
    assert "the load generator, not the server" in found["with workers"].remarks[0]


def test_with_one_core_nothing_is_tried_and_a_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = catalogue.recipes()["nginx"]
    base = PreparedTarget(
        name="it", origin=Origin.RECIPE, version="1", start=StartCommand(command=("it",))
    )
    workers = [knob for knob in recipe.knob if knob.name == "worker_processes"]
    tuned = updated(knob_changes.target_of_recipe(recipe, recipe.knob, base), knobs=tuple(workers))
    monkeypatch.setattr("jissoku.measure.host.available_cores", lambda: (0,))
    text = TuningResult(target="it", path="/", jissoku="1", seed=1, results=())
    here = SimpleNamespace(host=LocalHost())
    found = stage.tune_full_load(tuned, here, text, None)  # type: ignore[arg-type]
    assert [result.sentence for result in found.results] == ["there is one core only"]


def test_a_recipe_that_follows_the_cores_needs_no_setting() -> None:
    recipe = catalogue.recipes()["nginx"]
    base = PreparedTarget(
        name="nginx",
        origin=Origin.RECIPE,
        version="1",
        start=StartCommand(command=("nginx",)),
        config=recipe.config,
    )
    found = knob_changes.target_of_recipe(recipe, recipe.knob, base)
    assert found.skipped["worker_processes"] == knob_changes.ALREADY_SET


def test_a_time_per_answer_is_decided_as_every_comparison_is() -> None:
    found = ablation.rates_against_baseline(RUN, trials())
    assert {one.metric for one in found.values()} == {Metric.TIME}
    faster = found["with workers"]
    assert (faster.proven, faster.verdict) == (True, Verdict.LOWER)
    assert "the time per answer of as it is" in faster.sentence
    assert "needs less time (proven)" in faster.sentence
    least = min(found.values(), key=lambda one: one.p_value or 1.0)
    assert least.p_value is not None
    assert least.p_holm == pytest.approx(min(1.0, 2 * least.p_value)), "two comparisons"


def test_an_arm_that_failed_has_no_time() -> None:
    broken = [
        factories.failed(trial.kind, "with workers", index=trial.index, block=trial.block)
        if trial.arms == ("with workers",)
        else trial
        for trial in trials()
    ]
    found = ablation.rates_against_baseline(RUN, broken)
    assert found["with workers"].verdict is Verdict.FAILED
    assert found["with nothing"].verdict is not Verdict.FAILED
    assert found["with nothing"].p_holm == pytest.approx(
        min(1.0, 2 * (found["with nothing"].p_value or 1.0))
    ), "the failed one belongs to the family"
