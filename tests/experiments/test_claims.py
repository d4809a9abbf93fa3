"""Claims about made-up campaigns whose truth is known."""

import dataclasses

import pytest

from jissoku.model import Cores, Counts, Kind, Missing, Mode, Trial
from jissoku.model.experiment import (
    Answered,
    Claim,
    ClaimAnswer,
    Entrant,
    Experiment,
    Figures,
    Header,
    Published,
    Setting,
)
from jissoku.stats.claims import Known, answer
from jissoku.stats.figures import Campaign
from jissoku.stats.published import beside
from tests.stats import made

TRUTHS = {
    "cheap": made.Truth(cost_ns=5_000, rate_rps=60_000),
    "dear": made.Truth(cost_ns=10_000, rate_rps=30_000),
    "like": made.Truth(cost_ns=5_000, rate_rps=60_000),
}


def known(*, blocks: int = 9, missing: tuple[Missing, ...] = (), **header: object) -> Known:
    run = dataclasses.replace(made.run(list(TRUTHS)), missing=missing)
    trials = made.trials(run, TRUTHS, blocks=blocks, solo_blocks=blocks)
    other = made.trials(run, TRUTHS, blocks=blocks, solo_blocks=blocks, seed=2)
    experiment = Experiment(
        name="made",
        title="Made up",
        essay="Why.",
        target=tuple(Entrant(name=name, recipe=name) for name in TRUTHS),
        workload=(Setting(name="one"), Setting(name="two"), Setting(name="lost")),
        claim=(),
        published=(
            Published(server="dear", value=10, unit="req/s", quantity="rate(dear)"),
            Published(server="cheap", value=30, unit="req/s", quantity="rate(cheap)"),
            Published(server="gone", value=5, unit="req/s"),
        ),
    )
    whole = Header(
        experiment=experiment,
        jissoku=run.jissoku,
        started_utc=run.started_utc,
        mode=Mode.QUICK,
        seed=1,
        machine=run.machine,
        cores=Cores(server=(0,), stopwatch=(1,)),
        workloads=("one", "two"),
        left_out={"lost": "nobody came"},
    )
    per_request = {"read": 1.0, "writev": 1.0, "connections": 0.1, "segments": 2.0}
    counters = {
        "cheap": Counts(requests=400, per_request=per_request),
        "like": Counts(requests=400, per_request={"connections": 0.1}, calls_reason="no strace"),
    }
    rounds = tuple({"callback": 200.0 + n, "whole": 100.0 + n / 2} for n in range(9))
    figures = {"micro": Figures(rounds=rounds), "gone": Figures(reason="there is no cargo")}
    return Known(
        header=dataclasses.replace(whole, **header),  # type: ignore[arg-type]
        campaigns={
            "one": Campaign(run=run, trials=trials, counters=counters),
            "two": Campaign(run=run, trials=other, counters={}),
        },
        figures=figures,
    )


def ask(known: Known, *tests: str, **claim: object) -> ClaimAnswer:
    whole = Claim(name="a", text="It is so.", test=tests)
    return answer(known, dataclasses.replace(whole, **claim))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("cost(cheap) / cost(dear) < 0.6", Answered.HOLDS),
        ("cost(cheap) / cost(dear) < 0.4", Answered.FAILS),
        ("cost(dear) > 1.9 * cost(cheap)", Answered.HOLDS),
        ("cost(cheap) < cost(dear)", Answered.HOLDS),
        ("cost(dear) < cost(cheap)", Answered.FAILS),
        ("0.9 < cost(like) / cost(cheap) < 1.1", Answered.HOLDS),
        ("rate(cheap) / rate(dear) > 1.5", Answered.HOLDS),
        ("rate(dear) < rate(like)", Answered.HOLDS),
        ("rate(cheap@one) / rate(dear@two) > 1.5", Answered.HOLDS),
        ("rate(cheap@one) / rate(dear@two) > 3", Answered.FAILS),
        ("rate(dear) < 40_000", Answered.HOLDS),
        ("memory(cheap) < 5_000_000", Answered.HOLDS),
        ("p50(cheap) < 200_000", Answered.HOLDS),
        ("errors(cheap) = 0", Answered.HOLDS),
        ("errors(cheap) > 0", Answered.FAILS),
        ("calls(cheap) < 3", Answered.HOLDS),
        ("calls.openat(cheap) = 0", Answered.HOLDS),
        ("calls.read(cheap) < 1", Answered.FAILS),
        ("calls(dear) < 3", Answered.NOT_TESTABLE),
        ("calls(like) < 3", Answered.NOT_TESTABLE),
        ("connections(like) < 0.2", Answered.HOLDS),
        ("segments(cheap) = 2", Answered.HOLDS),
        ("bytes(cheap) < 200", Answered.NOT_TESTABLE),
        ("figure.callback(micro) / figure.whole(micro) > 1.9", Answered.HOLDS),
        ("figure.callback(micro) / figure.whole(micro) < 1.9", Answered.FAILS),
        ("figure.other(micro) < 5", Answered.NOT_TESTABLE),
        ("figure.whole(gone) < 5", Answered.NOT_TESTABLE),
        ("figure.whole(here) < 5", Answered.UNDECIDED),
        # 2 calls of about 100 ns are 4 % of 5 us.
        ("calls(cheap) * figure.whole(micro) / cost(cheap) < 0.05", Answered.HOLDS),
        ("calls(cheap) * figure.whole(micro) / cost(cheap) < 0.03", Answered.FAILS),
        ("calls.openat(cheap) * figure.whole(micro) / cost(cheap) < 1", Answered.NOT_TESTABLE),
        ("calls(like) * figure.whole(micro) / cost(cheap) < 1", Answered.NOT_TESTABLE),
        ("cost(cheap@lost) < cost(dear@lost)", Answered.NOT_TESTABLE),
    ],
)
def test_an_inequality_is_answered(test: str, wanted: Answered) -> None:
    assert ask(known(), test).answer is wanted


def together(threads_ns: dict[str, int | None]) -> Known:
    """The made-up campaign, beside a stopwatch that needs 3 us and kernel threads as told."""
    whole = known()
    trials = []
    for trial in whole.campaigns["one"].trials:
        if trial.kind is Kind.SOLO_RATE:
            (lane,) = trial.lanes
            threads = threads_ns[lane.arm]
            seen = dataclasses.replace(
                trial.conditions or made.QUIET,
                generator_cores=3_000 * lane.requests / lane.duration_ns,
                kernel_cpu_ns=None if threads is None else threads * lane.requests,
            )
            trials.append(dataclasses.replace(trial, conditions=seen))
        else:
            trials.append(trial)
    campaign = dataclasses.replace(whole.campaigns["one"], trials=tuple(trials))
    return dataclasses.replace(whole, campaigns={**whole.campaigns, "one": campaign})


def test_costs_together_count_the_stopwatch_and_the_kernels_threads() -> None:
    # 5 and 10 us of their own: 8 against 13, and 18 against 13 with the threads.
    alone = together({"cheap": 0, "dear": 0, "like": 0})
    assert ask(alone, "0.5 < together(cheap) / together(dear) < 0.7").answer is Answered.HOLDS
    paid = together({"cheap": 10_000, "dear": 0, "like": 0})
    assert ask(paid, "1.2 < together(cheap) / together(dear) < 1.6").answer is Answered.HOLDS
    assert ask(paid, "together(cheap) / together(dear) < 1").answer is Answered.FAILS


def test_costs_together_are_not_testable_where_nobody_sees_the_kernels_threads() -> None:
    found = ask(together(dict.fromkeys(TRUTHS)), "together(cheap) < together(dear)")
    assert found.answer is Answered.NOT_TESTABLE
    assert "kernel's threads cannot be seen" in found.tests[0].remarks[0]


def test_an_undecided_one_says_how_many_blocks_it_lacks() -> None:
    found = ask(known(), "rate(like) / rate(cheap) > 1.01")
    assert found.answer is Answered.UNDECIDED
    assert found.tests[0].value is not None
    assert found.tests[0].blocks_needed is None or found.tests[0].blocks_needed > 0


def test_all_parts_must_hold() -> None:
    assert ask(known(), "cost(cheap) < cost(dear)", "cost(dear) < cost(cheap)").answer is (
        Answered.FAILS
    )
    part = ask(known(), "cost(cheap) < cost(dear)", "calls(dear) < 3")
    assert part.answer is Answered.HOLDS
    assert part.remarks == ("1 of 2 parts cannot be tested here, and are left out",)


def test_too_few_blocks_decide_nothing() -> None:
    found = ask(known(blocks=4), "cost(cheap) < cost(dear)")
    assert found.answer is Answered.UNDECIDED
    assert found.tests[0].blocks_needed == 2


def test_what_is_missing_is_told_with_its_reason() -> None:
    lacking = Missing(name="dear", reason="there is no program dear", remedy="apt-get it")
    found = ask(known(missing=(lacking,)), "cost(cheap) < cost(dear)")
    assert found.answer is Answered.NOT_TESTABLE
    assert "there is no program dear" in found.tests[0].remarks[0]


def test_a_claim_about_more_cores_than_there_are_is_not_testable() -> None:
    found = ask(known(), "rate(cheap) > rate(dear)", server_cores_min=2)
    assert found.answer is Answered.NOT_TESTABLE
    assert "1 core here" in found.remarks[0]


def test_a_claim_without_a_test_keeps_its_reason() -> None:
    found = ask(known(), not_testable="nobody can")
    assert (found.answer, found.remarks) == (Answered.NOT_TESTABLE, ("nobody can",))


def test_a_rate_that_the_stopwatch_held_down_proves_one_way_only() -> None:
    whole = known()
    campaign = whole.campaigns["one"]

    def bound(trial: Trial) -> Trial:
        if trial.conditions is None or trial.arms != ("cheap",) or trial.conditions.spins:
            return trial
        busy = dataclasses.replace(
            trial.conditions, generator_busy_fraction=0.99, server_cores_busy_fraction=0.5
        )
        return dataclasses.replace(trial, conditions=busy)

    held = dataclasses.replace(campaign, trials=tuple(map(bound, campaign.trials)))
    ours = dataclasses.replace(whole, campaigns={"one": held})
    assert ask(ours, "rate(cheap) > rate(dear)").answer is Answered.HOLDS
    assert ask(ours, "rate(cheap) < 90_000").answer is Answered.UNDECIDED


def test_published_ratios_stand_beside_ours() -> None:
    first, second, third = beside(known())
    assert (first.ratio, first.our_ratio) == (1.0, None)
    assert second.ratio == 3.0
    assert second.our_ratio is not None
    assert second.our_ratio.low < 2.0 < second.our_ratio.high
    assert (third.ours, third.our_ratio) == (None, None)
