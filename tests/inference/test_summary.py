"""Whole runs: ranks, units, failures and the order of warnings."""

import random
from collections.abc import Mapping, Sequence

import pytest

from jissoku.cli.frame import ExitCode
from jissoku.cli.reports import report_code
from jissoku.inference import summarise
from jissoku.model import (
    Load,
    LoadLevel,
    Match,
    MeasurementStatus,
    Method,
    Metric,
    Run,
    Summary,
    Trial,
    TrialKind,
    Verdict,
    Workload,
)
from jissoku.model.summary import ArmSummary, Bottleneck, LoadPoint, Severity
from jissoku.model.trial import VerifiedResponse
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import MIDDLE, QUIETEST, Noise, TrueValues

COSTS = {"a": 5000, "b": 5002, "c": 9000, "floor": 4000}
TRUTHS = {name: TrueValues(cost_ns=cost) for name, cost in COSTS.items()}
LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
HEAVY = Load(rate_rps=50_000, level=LoadLevel.HEAVY)


def _race(*names: str) -> tuple[Run, tuple[Trial, ...]]:
    run = factories.sliced(names, floor="floor" if "floor" in names else "")
    return run, factories.trials(run, TRUTHS, noise=Noise(own=0.003))


def _standing(summary: Summary, name: str) -> ArmSummary:
    return next(s for s in summary.arm_summaries if s.arm.name == name)


def _point(summary: Summary, name: str, load: Load = MIDDLE) -> LoadPoint:
    found = _standing(summary, name).at(load)
    assert found is not None
    return found


def _titles(summary: Summary, weight: Severity) -> list[str]:
    return [warning.title for warning in summary.warnings if warning.severity is weight]


def test_equals_share_a_rank_and_the_floor_has_none() -> None:
    summary = summarise(*_race("c", "a", "b", "floor"))
    assert summary.main_load == MIDDLE
    first = summary.arm_summaries[0]
    assert (first.arm.name, _point(summary, "floor").rank) == ("floor", None)
    assert _point(summary, "a").rank == _point(summary, "b").rank == 1
    assert _point(summary, "c").rank == 3
    assert summary.unit == "floor"
    multiple = _point(summary, "c").relative_cost
    assert multiple is not None
    assert multiple.low < 2.25 < multiple.high
    assert len(_point(summary, "c").relative_costs) == 9
    assert _point(summary, "floor").relative_cost is not None
    assert _standing(summary, "c").bottleneck is Bottleneck.SERVER


def test_the_order_of_the_records_does_not_matter() -> None:
    run, trials = _race("a", "c", "floor")
    shuffled = list(trials)
    random.Random(3).shuffle(shuffled)
    assert summarise(run, shuffled) == summarise(run, trials)


def test_without_a_floor_the_baseline_is_the_unit() -> None:
    summary = summarise(*_race("a", "c"))
    assert summary.unit == "a"
    assert "The floor was not measured" in _titles(summary, Severity.WARNING)
    run, trials = _race("a", "c")
    found = summarise(updated(run, workload=Workload(path="/x", rate_rps=20_000)), trials)
    (text,) = [one.text for one in found.warnings if one.title == "The floor was not measured"]
    assert text.endswith("The floor answers / alone.")


def test_an_arm_that_loses_its_trials_to_another_is_no_problem_of_its_own() -> None:
    run, trials = _race("a", "b")
    alone = [one for one in trials if one.kind is TrialKind.CLOSED_LOOP and one.arms == ("a",)]
    lost = factories.failed(TrialKind.TIME_SLICED, "b", "a")
    summary = summarise(run, [updated(lost, index=0), *alone[:1]])
    assert _standing(summary, "a").status is MeasurementStatus.UNMEASURED
    assert "a was not measured" in _titles(summary, Severity.NOTE)
    assert "a was not measured" not in _titles(summary, Severity.PROBLEM)


def test_an_arm_that_always_fails_does_not_fail_other_arms() -> None:
    run, trials = _race("a", "b", "c", "floor")
    fails = [
        factories.failed(t.kind, "b", *(name for name in t.arms if name != "b"), block=t.block)
        for t in trials
        if "b" in t.arms
    ]
    without = [
        updated(t, arms=tuple(n for n in t.arms if n != "b"),
                measurements=tuple(one for one in t.measurements if one.arm != "b"))
        for t in trials
        if t.arms != ("b",)
    ]  # fmt: skip
    text = [updated(t, index=index) for index, t in enumerate([*fails[:2], *without])]
    summary = summarise(run, text)
    failed = _standing(summary, "b")
    assert failed.status is MeasurementStatus.FAILED
    assert (failed.points, failed.rate_rps) == ((), None)
    assert failed.failures[0].stderr == "bind: address in use"
    (warning,) = [f for f in summary.warnings if f.severity is Severity.PROBLEM]
    assert warning.detail == "bind: address in use"
    words = {(c.arm, c.against): c.verdict for c in summary.by(Metric.COST)}
    assert words["b", "a"] is words["c", "b"] is Verdict.FAILED
    assert words["c", "a"] is Verdict.HIGHER
    assert _standing(summary, "a").status is MeasurementStatus.MEASURED


def test_one_failure_costs_one_block_and_is_reported() -> None:
    run, trials = _race("a", "c")
    first = next(
        t for t in trials if t.kind is TrialKind.TIME_SLICED and t.slice_ns == run.slice_ns
    )
    broken = factories.failed(
        TrialKind.TIME_SLICED, "c", "a", index=first.index, slice_ns=first.slice_ns
    )
    summary = summarise(run, [broken if t is first else t for t in trials])
    assert _standing(summary, "c").status is MeasurementStatus.MEASURED
    (pair,) = summary.by(Metric.COST)
    assert pair.ratio is not None
    assert pair.ratio.blocks == 8
    assert "c has no result in 1 of 18 trials (ready)" in _titles(summary, Severity.PROBLEM)


def test_a_target_that_ends_by_itself_is_in_the_headline_and_the_exit_code() -> None:
    run, trials = _race("a", "c")
    broken = factories.failed(TrialKind.CAPACITY, "c", index=900)
    failure = broken.failure
    assert failure is not None
    reason = "c exited with code 3 under load"
    codes = {}
    for has_ended in (False, True):
        end = updated(broken, failure=updated(failure, reason=reason, has_ended=has_ended))
        summary = summarise(run, [*trials, end])
        (pair,) = summary.by(Metric.COST)
        assert pair.proven
        codes[has_ended] = report_code(summary), summary.headline.endswith(f"; {reason}.")
    assert codes == {False: (ExitCode.OK, False), True: (ExitCode.FAILED, True)}


def test_a_failed_check_does_not_fail_an_arm_of_paired_trials() -> None:
    run = factories.run(
        ["a", "c"], method=Method.PAIRED, loads=(MIDDLE,), slice_ns=factories.TURN_NS
    )
    trials = factories.trials(run, TRUTHS)
    check = next(t for t in trials if t.kind is TrialKind.TIME_SLICED)
    broken = factories.failed(
        TrialKind.TIME_SLICED, "c", "a", index=check.index, slice_ns=check.slice_ns
    )
    summary = summarise(run, [broken if t is check else t for t in trials])
    assert _standing(summary, "c").status is MeasurementStatus.MEASURED
    assert summary.comparisons[0].proven


def test_wrong_answers_are_invalid_and_have_no_number() -> None:
    run, trials = _race("a", "b", "c")
    check = factories.invalid("c")
    trials = tuple(updated(t, failed_checks=(check,)) if "c" in t.arms else t for t in trials)
    summary = summarise(run, trials)
    assert _standing(summary, "c").status is MeasurementStatus.INVALID
    assert _standing(summary, "c").points == ()
    words = {(c.arm, c.against): c.verdict for c in summary.by(Metric.COST)}
    assert words["c", "a"] is words["c", "b"] is Verdict.INVALID
    assert words["b", "a"] is Verdict.EQUAL, "the same trials count for the others"
    assert _standing(summary, "a").trials_valid == _standing(summary, "a").trials_total


def test_wrong_responses_invalidate_a_paired_trial_for_both() -> None:
    run = factories.run(["a", "c"], method=Method.PAIRED, loads=(MIDDLE,))
    trials = tuple(
        updated(t, failed_checks=(factories.invalid("c"),)) if "c" in t.arms else t
        for t in factories.trials(run, TRUTHS, check_blocks=0)
    )
    summary = summarise(run, trials)
    assert _standing(summary, "c").status is MeasurementStatus.INVALID
    assert _standing(summary, "a").status is MeasurementStatus.UNMEASURED, (
        "its paired trials were all with c"
    )


def test_rejected_attempts_are_counted_and_withhold_nothing() -> None:
    run, trials = _race("a", "c")
    cost = [t for t in trials if t.kind.is_cost]
    again = [factories.rejected(updated(t, index=100 + t.index)) for t in cost]
    found = summarise(run, [*trials, *again])
    assert found.comparisons[0].verdict is Verdict.HIGHER
    assert found.trials_rejected == len(cost)
    texts = [warning.text for warning in found.warnings]
    assert any(text.endswith(f"stall {len(cost)}. For example: it was stopped.") for text in texts)


def test_an_arm_that_is_rejected_more_often_than_others_gets_no_verdict() -> None:
    run = factories.sliced(["a", "b", "c", "floor"], floor="floor")
    trials = factories.trials(run, TRUTHS, blocks=20, solo_blocks=20)
    again = [
        factories.rejected(updated(t, index=1000 + t.index))
        for t in trials
        if t.kind is TrialKind.FIXED_RATE and t.arms == ("c",) and t.block < 12
    ]
    words = {(p.arm, p.against): p for p in summarise(run, [*trials, *again]).by(Metric.COST)}
    assert words["c", "a"].verdict is Verdict.INVALID
    assert "depends on the target" in words["c", "a"].remarks[0]
    assert words["b", "a"].verdict is not Verdict.INVALID


def test_long_windows_that_are_disturbed_more_often_are_nobodys_fault() -> None:
    """A slow arm takes part in light loads only, whose windows are longer."""
    run = factories.sliced(["a", "b", "slow"], loads=(LIGHT, MIDDLE, HEAVY))
    truths = TRUTHS | {"slow": TrueValues(cost_ns=9000, reach_rps=1_000)}
    trials = factories.trials(run, truths, blocks=40, solo_blocks=0)
    again = [
        factories.rejected(updated(t, index=9000 + t.index))
        for t in trials
        if t.load_rps == 1_000 and t.block < 24
    ]
    found = summarise(run, [*trials, *again]).by(Metric.COST)
    assert not [c for c in found if c.verdict is Verdict.INVALID]


def test_a_run_cut_short_says_how_many_blocks_are_missing() -> None:
    run, trials = _race("a", "c")
    (pair,) = summarise(run, [t for t in trials if t.block < 4]).by(Metric.COST)
    assert pair.verdict is Verdict.INCONCLUSIVE
    assert pair.blocks_needed == 2
    assert pair.ratio is not None


def test_a_run_that_is_not_finished_says_so_and_ranks_nothing() -> None:
    race = _race("floor", "a", "b")
    whole = summarise(*race)
    assert any(point.rank for known in whole.arm_summaries for point in known.points)
    found = summarise(*race, unfinished="it was interrupted in block 7")
    assert found.warnings[0].title == "The run is not finished"
    assert found.warnings[0].text.startswith("It was interrupted in block 7. ")
    assert found.headline.startswith("No ranking, since the run is not finished: it was interr")
    assert not any(point.rank for known in found.arm_summaries for point in known.points)
    assert found.comparisons == whole.comparisons


def test_a_run_without_trials_is_a_summary_too() -> None:
    summary = summarise(factories.sliced(["a", "c"]), ())
    assert summary.headline == "No ranking: too few trials are valid."
    assert summary.advice == ()
    assert {s.status for s in summary.arm_summaries} == {MeasurementStatus.UNMEASURED}


def test_background_work_is_shown_and_charged() -> None:
    run, trials = _race("a", "c")

    def with_background(trial: Trial) -> Trial:
        measurements = (
            updated(
                measurement, slice_cpu_ns=tuple(cpu * 3 // 4 for cpu in measurement.slice_cpu_ns)
            )
            if measurement.arm == "c"
            else measurement
            for measurement in trial.measurements
        )
        return (
            updated(trial, measurements=tuple(measurements))
            if trial.kind is TrialKind.TIME_SLICED
            else trial
        )

    summary = summarise(run, [with_background(trial) for trial in trials])
    assert _point(summary, "a").background_fraction == pytest.approx(0.0, abs=1e-6)
    assert _point(summary, "c").background_fraction == pytest.approx(0.25, abs=0.001)
    multiple = _point(summary, "c").relative_cost
    assert multiple is not None
    assert multiple.value == pytest.approx(1.8, rel=0.02), "the whole clock counts"


def test_a_load_without_a_trial_is_not_said_to_be_too_much() -> None:
    run = factories.sliced(["a", "b"], loads=(LIGHT, MIDDLE))
    trials = [trial for trial in factories.trials(run, TRUTHS) if trial.load_rps == LIGHT.rate_rps]
    summary = summarise(run, trials)
    assert all(not known.unreached for known in summary.arm_summaries)
    assert all("not reach" not in one for one in summary.advice)


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ("a b floor", f"No target reaches {MIDDLE.text}, nor does the floor: the machine is too"),
        ("a b", f"b and a do not reach {MIDDLE.text}."),
        ("floor b", f"b does not reach {MIDDLE.text}."),
        ("floor", ""),
    ],
)
def test_a_load_that_the_floor_does_not_reach_either_is_too_much_for_the_machine(
    slow: str, expected: str
) -> None:
    run = updated(factories.sliced(["a", "b", "floor"], loads=(LIGHT, MIDDLE)), floor="floor")
    trials = factories.trials(run, TRUTHS | {"floor": TrueValues(cost_ns=4000)})
    advice = summarise(run, [_answering_half(trial, slow.split()) for trial in trials]).advice
    found = [one for one in advice if "reach" in one]
    assert len(found) == bool(expected)
    assert "".join(found).startswith(expected)


def _answering_half(trial: Trial, names: Sequence[str]) -> Trial:
    """A trial in which some arms answer half of the requests at the heavier load."""
    if trial.load_rps != MIDDLE.rate_rps:
        return trial
    measurements = [
        updated(one, requests=one.requests // 2) if one.arm in names else one
        for one in trial.measurements
    ]
    return updated(trial, measurements=tuple(measurements))


def test_loads_that_an_arm_does_not_reach_are_named() -> None:
    run = factories.sliced(["a", "b", "slow"], loads=(LIGHT, MIDDLE))
    truths = TRUTHS | {"slow": TrueValues(cost_ns=9000, reach_rps=1_000)}
    summary = summarise(run, factories.trials(run, truths))
    assert _standing(summary, "slow").unreached == (MIDDLE,)
    assert _standing(summary, "slow").at(MIDDLE) is None
    assert "slow does not reach 20,000 requests/s (medium load)." in summary.advice
    # After an end in the second block that is known, in the first one it is not.
    whole = factories.trials(run, truths)
    for blocks, expected in ((2, (MIDDLE,)), (1, ())):
        begun = [trial for trial in whole if trial.block < blocks]
        found = summarise(run, begun, unfinished="it was interrupted")
        assert _standing(found, "slow").unreached == expected
        assert all("does not reach" not in one for one in found.advice)
    nothing = summarise(updated(run, horizon=9), (), unfinished="it was interrupted")
    assert nothing.headline == "Nothing is known yet: it was interrupted."
    assert not any(one.title.startswith(("a ", "slow ")) for one in nothing.warnings)


def test_tables_are_sorted_by_the_heaviest_load_that_most_reach() -> None:
    loads = (LIGHT, MIDDLE, HEAVY)
    run = factories.sliced(["a", "b", "c", "d"], loads=loads)
    reach = {"a": 50_000, "b": 50_000, "c": 20_000, "d": 1_000}
    truths = {name: TrueValues(cost_ns=5000, reach_rps=rate) for name, rate in reach.items()}
    summary = summarise(run, factories.trials(run, truths))
    assert summary.main_load == MIDDLE, "three of four reach it"
    assert summary.loads == loads


def test_a_control_shows_the_noise_and_stands_in_no_ranking() -> None:
    run, trials = _race("a", "b", "c", "floor")
    summary = summarise(updated(run, aa_control="b"), trials)
    (control,) = summary.aa_control
    assert (control.arm, control.against, control.load) == ("b", "a", MIDDLE)
    assert not control.proven
    assert any(title.startswith("A/A control at") for title in _titles(summary, Severity.NOTE))
    assert "b" not in {s.arm.name for s in summary.arm_summaries}
    assert all("b" not in {c.arm, c.against} for c in summary.comparisons)


def test_what_equal_servers_showed_is_no_effect_for_others() -> None:
    truths = {
        name: TrueValues(cost_ns=cost) for name, cost in {"a": 5000, "b": 5400, "c": 5300}.items()
    }
    run = factories.sliced(("a", "b", "c"), aa_control="b")
    summary = summarise(run, factories.trials(run, truths, noise=QUIETEST))
    assert any(t.startswith("A/A control failed") for t in _titles(summary, Severity.WARNING))
    (pair,) = summary.by(Metric.COST)
    assert pair.minimum_effect > 0.05
    assert pair.verdict is not Verdict.HIGHER


def test_a_check_that_disagrees_is_flagged_once() -> None:
    run = factories.sliced(["a", "b"])
    truths = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5500, alone=1.2)}
    summary = summarise(run, factories.trials(run, truths, noise=QUIETEST))
    (warning,) = (f for f in summary.warnings if "a check disagrees" in f.title)
    assert warning.severity is Severity.WARNING
    assert "each alone: 1.3" in warning.text
    assert "disagree" not in "".join(summary.comparisons[0].remarks)


def _with_answers(
    trials: Sequence[Trial], given: Mapping[str, VerifiedResponse]
) -> tuple[Trial, ...]:
    return tuple(
        updated(
            trial,
            measurements=tuple(updated(one, response=given[one.arm]) for one in trial.measurements),
        )
        for trial in trials
    )


@pytest.mark.parametrize("match", Match)
def test_a_body_of_another_length_is_named(match: Match) -> None:
    run, trials = _race("a", "b", "floor")
    run = updated(run, workload=updated(run.workload, match=match))
    right = VerifiedResponse(
        status=200, content_type="text/plain", body_sha256="x", body_bytes=13, head_bytes=80
    )
    given = {"a": right, "b": updated(right, body_bytes=14), "floor": updated(right, head_bytes=9)}
    answered = _with_answers(trials, given)
    found = {one.title: one for one in summarise(run, answered).warnings}
    title = "b answers 14 bytes, a 13 bytes"
    is_named = match in {Match.BYTES, Match.LENGTH}
    assert (title in found) is is_named
    if match is Match.BYTES:
        assert found[title].severity is Severity.WARNING
        assert "--match length accepts this one" in found[title].remedy
    elif is_named:
        assert found[title].severity is Severity.NOTE
    assert "not comparable" not in " ".join(found)
    assert not any(one.startswith("floor answers") for one in found)


@pytest.mark.parametrize(
    ("changed", "title", "is_accepted"),
    [
        ({"status": 204}, "b answers status 204, a status 200", False),
        ({"content_type": "text/html"}, "b answers text/html, a text/plain", True),
        ({"body_bytes": 2000}, "b answers 2,000 bytes, a 13 bytes", True),
        ({"body_sha256": "y"}, "b answers another body, a one of the same length", True),
    ],
)
def test_other_work_is_a_warning_that_says_what_differs(
    changed: dict[str, object], title: str, *, is_accepted: bool
) -> None:
    run, trials = _race("a", "b", "floor")
    right = VerifiedResponse(
        status=200, content_type="text/plain", body_sha256="x", body_bytes=13, head_bytes=80
    )
    answered = _with_answers(trials, {"a": right, "b": updated(right, **changed), "floor": right})  # type: ignore[arg-type]
    (found,) = (one for one in summarise(run, answered).warnings if one.title == title)
    assert found.severity is Severity.WARNING
    assert "give both the same response" in found.remedy
    assert ("accepts" in found.remedy) is is_accepted
