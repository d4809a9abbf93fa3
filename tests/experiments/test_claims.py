"""Claims about simulated campaigns with known ratios."""

import math
from collections.abc import Callable, Mapping

import pytest

from jissoku.inference.claims import ClaimData, WorkloadTrials, compare_published, evaluate_claims
from jissoku.model import (
    ArmMeasurement,
    CoreAssignment,
    CounterReadings,
    Mode,
    Trial,
    TrialKind,
    UnavailableTarget,
)
from jissoku.model.experiment import (
    BenchmarkOutput,
    Claim,
    ClaimResult,
    ClaimStatus,
    Experiment,
    ExperimentHeader,
    PublishedFigure,
    TargetSpec,
    WorkloadSpec,
)
from jissoku.model.updated import updated
from tests.inference import factories

TRUTHS = {
    "cheap": factories.TrueValues(cost_ns=5_000, rate_rps=60_000),
    "dear": factories.TrueValues(cost_ns=10_000, rate_rps=30_000),
    "like": factories.TrueValues(cost_ns=5_000, rate_rps=60_000),
}


def known(
    *,
    blocks: int = 9,
    unavailable: tuple[UnavailableTarget, ...] = (),
    truths: Mapping[str, factories.TrueValues] = TRUTHS,
    **header: object,
) -> ClaimData:
    run = factories.sliced(list(truths), unavailable=unavailable)
    trials = factories.trials(run, truths, blocks=blocks, solo_blocks=blocks)
    other = factories.trials(run, truths, blocks=blocks, solo_blocks=blocks, seed=2)
    experiment = Experiment(
        name="made",
        title="Made up",
        description="Why.",
        target=tuple(TargetSpec(name=name, recipe=name) for name in TRUTHS),
        workload=(WorkloadSpec(name="one"), WorkloadSpec(name="two"), WorkloadSpec(name="lost")),
        claim=(),
        published=(
            PublishedFigure(server="dear", value=10, unit="req/s", quantity="rate(dear)"),
            PublishedFigure(server="cheap", value=30, unit="req/s", quantity="rate(cheap)"),
            PublishedFigure(server="gone", value=5, unit="req/s"),
        ),
    )
    whole = ExperimentHeader(
        experiment=experiment,
        jissoku=run.jissoku,
        started_utc=run.started_utc,
        mode=Mode.QUICK,
        seed=1,
        machine=run.machine,
        cores=CoreAssignment(server=(0,), generator=(1,)),
        workloads=("one", "two"),
        skipped={"lost": "no trial finished"},
    )
    per_request = {"read": 1.0, "writev": 1.0, "connections": 0.1, "segments": 2.0}
    counters = {
        "cheap": CounterReadings(requests=400, per_request=per_request),
        "like": CounterReadings(
            requests=400, per_request={"connections": 0.1}, syscalls_reason="no strace"
        ),
    }
    rounds = tuple({"callback": 200.0 + n, "whole": 100.0 + n / 2} for n in range(9))
    figures = {
        "micro": BenchmarkOutput(rounds=rounds),
        "gone": BenchmarkOutput(reason="there is no cargo"),
    }
    return ClaimData(
        header=updated(whole, **header),  # type: ignore[arg-type]
        workloads={
            "one": WorkloadTrials(run=run, trials=trials, counters=counters),
            "two": WorkloadTrials(run=run, trials=other, counters={}),
        },
        benchmarks=figures,
    )


def ask(known: ClaimData, *tests: str, **claim: object) -> ClaimResult:
    whole = Claim(name="a", text="It is so.", test=tests)
    (found,) = evaluate_claims(known, (updated(whole, **claim),))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("cost(cheap) / cost(dear) < 0.6", ClaimStatus.HOLDS),
        ("cost(cheap) / cost(dear) < 0.4", ClaimStatus.FAILS),
        ("cost(dear) > 1.9 * cost(cheap)", ClaimStatus.HOLDS),
        ("cost(cheap) < cost(dear)", ClaimStatus.HOLDS),
        ("cost(dear) < cost(cheap)", ClaimStatus.FAILS),
        ("0.9 < cost(like) / cost(cheap) < 1.1", ClaimStatus.HOLDS),
        ("rate(cheap) / rate(dear) > 1.5", ClaimStatus.HOLDS),
        ("rate(dear) < rate(like)", ClaimStatus.HOLDS),
        ("rate(cheap@one) / rate(dear@two) > 1.5", ClaimStatus.HOLDS),
        ("rate(cheap@one) / rate(dear@two) > 3", ClaimStatus.FAILS),
        ("rate(dear) < 40_000", ClaimStatus.HOLDS),
        ("memory(cheap) < 5_000_000", ClaimStatus.HOLDS),
        ("p50(cheap) < 200_000", ClaimStatus.HOLDS),
        ("errors(cheap) = 0", ClaimStatus.HOLDS),
        ("errors(cheap) > 0", ClaimStatus.FAILS),
        ("calls(cheap) < 3", ClaimStatus.HOLDS),
        ("calls.openat(cheap) = 0", ClaimStatus.HOLDS),
        ("calls.read(cheap) < 1", ClaimStatus.FAILS),
        ("calls(dear) < 3", ClaimStatus.NOT_TESTABLE),
        ("calls(like) < 3", ClaimStatus.NOT_TESTABLE),
        ("connections(like) < 0.2", ClaimStatus.HOLDS),
        ("segments(cheap) = 2", ClaimStatus.HOLDS),
        ("bytes(cheap) < 200", ClaimStatus.NOT_TESTABLE),
        ("benchmark.callback(micro) / benchmark.whole(micro) > 1.9", ClaimStatus.HOLDS),
        ("benchmark.callback(micro) / benchmark.whole(micro) < 1.9", ClaimStatus.FAILS),
        ("benchmark.other(micro) < 5", ClaimStatus.NOT_TESTABLE),
        ("benchmark.whole(gone) < 5", ClaimStatus.NOT_TESTABLE),
        ("benchmark.whole(here) < 5", ClaimStatus.UNDECIDED),
        # 2 calls of about 100 ns are 4 % of 5 us.
        ("calls(cheap) * benchmark.whole(micro) / cost(cheap) < 0.05", ClaimStatus.HOLDS),
        ("calls(cheap) * benchmark.whole(micro) / cost(cheap) < 0.03", ClaimStatus.FAILS),
        (
            "calls.openat(cheap) * benchmark.whole(micro) / cost(cheap) < 1",
            ClaimStatus.NOT_TESTABLE,
        ),
        ("calls(like) * benchmark.whole(micro) / cost(cheap) < 1", ClaimStatus.NOT_TESTABLE),
        ("cost(cheap@lost) < cost(dear@lost)", ClaimStatus.NOT_TESTABLE),
    ],
)
def test_an_inequality_is_answered(test: str, wanted: ClaimStatus) -> None:
    assert ask(known(), test).status is wanted


def together(threads_ns: dict[str, int | None]) -> ClaimData:
    """The simulated campaign, with a load generator that uses 3 us and the given kernel threads."""
    whole = known()
    trials = []
    for trial in whole.workloads["one"].trials:
        if trial.kind is TrialKind.CLOSED_LOOP:
            (measurement,) = trial.measurements
            threads = threads_ns[measurement.arm]
            seen = updated(
                trial.conditions or factories.QUIET,
                generator_cpu_cores=3_000 * measurement.requests / measurement.duration_ns,
                kernel_cpu_ns=None if threads is None else threads * measurement.requests,
            )
            trials.append(updated(trial, conditions=seen))
        else:
            trials.append(trial)
    campaign = updated(whole.workloads["one"], trials=tuple(trials))
    return updated(whole, workloads={**whole.workloads, "one": campaign})


def test_total_cpu_includes_the_load_generator_and_the_kernels_threads() -> None:
    # 5 and 10 us of their own: 8 against 13, and 18 against 13 with the threads.
    alone = together({"cheap": 0, "dear": 0, "like": 0})
    assert ask(alone, "0.5 < total_cpu(cheap) / total_cpu(dear) < 0.7").status is ClaimStatus.HOLDS
    paid = together({"cheap": 10_000, "dear": 0, "like": 0})
    assert ask(paid, "1.2 < total_cpu(cheap) / total_cpu(dear) < 1.6").status is ClaimStatus.HOLDS
    assert ask(paid, "total_cpu(cheap) / total_cpu(dear) < 1").status is ClaimStatus.FAILS


def test_total_cpu_is_not_testable_without_the_kernels_threads() -> None:
    found = ask(together(dict.fromkeys(TRUTHS)), "total_cpu(cheap) < total_cpu(dear)")
    assert found.status is ClaimStatus.NOT_TESTABLE
    assert "kernel's threads cannot be seen" in found.inequalities[0].remarks[0]


@pytest.mark.parametrize(("bound", "lacks"), [(1.01, 64), (1.0, 211), (0.99, None)])
def test_an_undecided_one_says_how_many_blocks_it_lacks(bound: float, lacks: int | None) -> None:
    """The ratio is 0.99: the closer the bound, the more blocks; above 1000 there is no forecast."""
    found = ask(known(), f"rate(like) / rate(cheap) > {bound}")
    assert found.status is ClaimStatus.UNDECIDED
    assert found.inequalities[0].value is not None
    assert found.inequalities[0].blocks_needed == lacks


def test_all_parts_must_hold() -> None:
    assert ask(known(), "cost(cheap) < cost(dear)", "cost(dear) < cost(cheap)").status is (
        ClaimStatus.FAILS
    )
    part = ask(known(), "cost(cheap) < cost(dear)", "calls(dear) < 3")
    assert part.status is ClaimStatus.HOLDS
    assert part.remarks == ("1 of 2 parts cannot be tested here, and are omitted",)


def test_too_few_blocks_decide_nothing() -> None:
    found = ask(known(blocks=4), "cost(cheap) < cost(dear)")
    assert found.status is ClaimStatus.UNDECIDED
    assert found.inequalities[0].blocks_needed == 2


def test_what_is_missing_is_reported_with_its_reason() -> None:
    unavailable = UnavailableTarget(
        name="dear", reason="no program dear", install_hint="apt-get it"
    )
    found = ask(known(unavailable=(unavailable,)), "cost(cheap) < cost(dear)")
    assert found.status is ClaimStatus.NOT_TESTABLE
    assert "no program dear" in found.inequalities[0].remarks[0]


def test_a_claim_about_more_cores_than_there_are_is_not_testable() -> None:
    found = ask(known(), "rate(cheap) > rate(dear)", server_cores_min=2)
    assert found.status is ClaimStatus.NOT_TESTABLE
    assert "1 core here" in found.remarks[0]


def test_a_claim_without_a_test_keeps_its_reason() -> None:
    found = ask(known(), not_testable="it cannot be tested")
    assert (found.status, found.remarks) == (ClaimStatus.NOT_TESTABLE, ("it cannot be tested",))


def test_a_generator_bound_rate_proves_one_direction_only() -> None:
    whole = known()
    campaign = whole.workloads["one"]

    def bound(trial: Trial) -> Trial:
        if (
            trial.conditions is None
            or trial.arms != ("cheap",)
            or trial.conditions.generator_busy_polls
        ):
            return trial
        busy = updated(
            trial.conditions, generator_busy_fraction=0.99, server_cores_busy_fraction=0.5
        )
        return updated(trial, conditions=busy)

    held = updated(campaign, trials=tuple(map(bound, campaign.trials)))
    ours = updated(whole, workloads={"one": held})
    assert ask(ours, "rate(cheap) > rate(dear)").status is ClaimStatus.HOLDS
    assert ask(ours, "rate(cheap) < 90_000").status is ClaimStatus.UNDECIDED


def test_published_ratios_stand_beside_ours() -> None:
    first, second, third = compare_published(known())
    assert (first.ratio, first.our_ratio) == (1.0, None)
    assert second.ratio == 3.0
    assert second.our_ratio is not None
    assert second.our_ratio.low < 2.0 < second.our_ratio.high
    assert (third.ours, third.our_ratio) == (None, None)


def changed(known: ClaimData, change: Callable[[Trial], Trial]) -> ClaimData:
    """The same records of the first workload, each trial changed."""
    campaign = known.workloads["one"]
    trials = tuple(map(change, campaign.trials))
    mine = {"one": updated(campaign, trials=trials)}
    return updated(known, workloads={**known.workloads, **mine})


def in_error(trial: Trial, arm: str, errors: int) -> Trial:
    """A trial with wrong answers of an arm: invalid, with its errors in the record."""

    def wrong(measurement: ArmMeasurement) -> ArmMeasurement:
        return updated(measurement, errors=measurement.errors | {"body": errors})

    measurements = tuple(
        wrong(measurement) if measurement.arm == arm else measurement
        for measurement in trial.measurements
    )
    return updated(trial, measurements=measurements, failed_checks=(factories.invalid(arm),))


def test_errors_that_took_their_trials_numbers_are_counted() -> None:
    """Without them no claim about errors could ever fail."""
    spoilt = changed(
        known(), lambda t: in_error(t, "cheap", 3) if "cheap" in t.arms and t.block < 2 else t
    )
    found = ask(spoilt, "errors(cheap) = 0")
    assert found.status is ClaimStatus.FAILS
    mine = [t for t in spoilt.workloads["one"].trials if "cheap" in t.arms and t.block < 2]
    assert found.inequalities[0].measured == str(3 * len(mine))
    assert ask(spoilt, "errors(dear) = 0").status is ClaimStatus.HOLDS


def test_a_target_that_failed_is_an_error() -> None:
    fails = changed(
        known(),
        lambda t: (
            factories.failed(t.kind, "dear", index=t.index, block=t.block)
            if t.arms == ("dear",) and t.block == 3
            else t
        ),
    )
    found = ask(fails, "errors(dear) = 0")
    assert (found.status, found.inequalities[0].measured) == (ClaimStatus.FAILS, "2")
    assert ask(fails, "errors(cheap) = 0").status is ClaimStatus.HOLDS


def test_errors_of_an_arm_that_never_ran_are_not_zero() -> None:
    gone = known()
    campaign = updated(gone.workloads["one"], trials=())
    found = ask(updated(gone, workloads={"one": campaign}), "errors(cheap) = 0")
    assert found.status is ClaimStatus.UNDECIDED


def test_student_and_hodges_lehmann_have_to_agree() -> None:
    """Two blocks of nine lie above the bound: the mean is below it, the signed ranks are not."""
    claim = "rate(dear) / rate(like) < 0.72"
    off = [-0.073, -0.035, -0.045, -0.074, -0.078, -0.034, -0.037, 0.045, 0.006]
    logs = [math.log(0.72) + one for one in off]

    def rates(trial: Trial) -> Trial:
        if trial.kind is not TrialKind.CLOSED_LOOP:
            return trial
        (measurement,) = trial.measurements
        rate = 60_000 * (math.exp(logs[trial.block]) if measurement.arm == "dear" else 1)
        return updated(trial, measurements=(updated(measurement, requests=round(rate)),))

    found = ask(changed(known(), rates), claim)
    assert found.inequalities[0].p_holm is not None
    assert found.inequalities[0].p_holm <= 0.05
    assert found.status is ClaimStatus.UNDECIDED
    assert found.inequalities[0].remarks == (
        "the two methods disagree: Student's t says lower, Hodges-Lehmann says inconclusive",
    )


def test_all_inequalities_of_an_experiment_are_one_family() -> None:
    whole = known()
    sharp = Claim(name="a", text="It is so.", test=("rate(like) / rate(cheap) < 1.05",))
    (alone,) = evaluate_claims(whole, (sharp,))
    p_value = alone.inequalities[0].p_holm
    assert p_value is not None
    others = tuple(
        Claim(name=f"o{n}", text="It is so.", test=("rate(like) / rate(cheap) < 1.0001",))
        for n in range(9)
    )
    beside = evaluate_claims(whole, (sharp, *others))[0].inequalities[0].p_holm
    assert beside == pytest.approx(min(1.0, 10 * p_value))
    many = evaluate_claims(whole, (sharp, *(
        updated(other, test=("calls(cheap) < 3",)) for other in others
    )))  # fmt: skip
    assert many[0].inequalities[0].p_holm == pytest.approx(p_value), (
        "exact counts belong to no family"
    )


# What dear costs alone, beside twice as much as cheap: (factor, what is claimed, the answer).
CONTRADICTED = [
    (1.0, "cost(dear) / cost(cheap) > 1.8", ClaimStatus.HOLDS),
    (1.3, "cost(dear) / cost(cheap) > 1.8", ClaimStatus.HOLDS),  # more so: the same answer
    (0.8, "cost(dear) / cost(cheap) > 1.8", ClaimStatus.UNDECIDED),  # 1.6 alone is the other answer
    (0.8, "cost(dear) / cost(cheap) > 1.5", ClaimStatus.HOLDS),  # 1.6 alone is the same answer
    (0.8, "cost(dear) / cost(cheap) < 1.8", ClaimStatus.UNDECIDED),
    (0.8, "cost(dear) > 1.8 * cost(cheap)", ClaimStatus.UNDECIDED),
]


@pytest.mark.parametrize(("alone", "test", "wanted"), CONTRADICTED)
def test_a_check_that_would_answer_otherwise_leaves_a_claim_open(
    alone: float, test: str, wanted: ClaimStatus
) -> None:
    truths = TRUTHS | {"dear": updated(TRUTHS["dear"], alone=alone)}
    found = ask(known(truths=truths), test)
    assert found.status is wanted
    checks = found.inequalities[0].cross_checks
    assert [check.agrees for check in checks] == [True, alone == 1.0]
    if wanted is ClaimStatus.UNDECIDED:
        assert (
            found.inequalities[0].remarks[0].startswith("cross-checked (each alone) the ratio is")
        )


def test_a_check_speaks_of_two_costs_only() -> None:
    """Beside a count or another workload's ratio its figure is not that of the left side."""
    truths = TRUTHS | {"dear": updated(TRUTHS["dear"], alone=0.8)}
    whole = known(truths=truths)
    for test in (
        "calls(cheap) * cost(dear) / cost(cheap) > 3.6",
        "cost(dear@one) / cost(cheap@one) * cost(dear@two) / cost(cheap@two) > 3.6",
    ):
        found = ask(whole, test)
        assert (found.status, found.inequalities[0].cross_checks) == (ClaimStatus.HOLDS, ()), test


def test_a_disturbed_trial_answers_nothing() -> None:
    noisy = changed(known(), factories.rejected)
    found = ask(noisy, "cost(cheap) < cost(dear)")
    assert found.status is ClaimStatus.UNDECIDED
    assert "trials were rejected, none counts" in found.inequalities[0].remarks[0]
