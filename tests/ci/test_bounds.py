"""Bounds on constructed runs with known ratios."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from jissoku.design.sampling_plan import SAMPLING_PLANS, anytime, deciding
from jissoku.inference import summarise
from jissoku.inference.bounds import bound_results, confirmed, read_bound
from jissoku.inference.expression import GrammarError
from jissoku.measure.ci import write_ci_files
from jissoku.model import CounterReadings, Mode, Run, Trial
from jissoku.model.summary import BoundStatus
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from jissoku.report.bounds import FORMATS, LENGTH_MAX, MARKER, bound_sentence, causes, comment
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues

BOUND = "cost(head) > 1.01 x cost(base)"
NOISE = Noise(own=0.004)


def measured(
    head: float, *, seed: int, blocks: int = 9, again: float = 1.0, noise: Noise = NOISE
) -> tuple[Run, tuple[Trial, ...]]:
    """`head` costs this many times as much as `base`; so does the A/A control with `again`."""
    names = ["base", "head", "base again"]
    run = updated(factories.sliced(names), aa_control="base again")
    truths = {
        "base": TrueValues(cost_ns=10_000),
        "head": TrueValues(cost_ns=10_000 * head),
        "base again": TrueValues(cost_ns=10_000 * again),
    }
    return run, factories.trials(
        run, truths, blocks=blocks, check_blocks=0, solo_blocks=0, noise=noise, seed=seed
    )


def statuses(head: float, count: int = 40) -> Counter[BoundStatus]:
    return Counter(
        bound_results(*measured(head, seed=seed), [BOUND])[0].status for seed in range(count)
    )


def test_equal_code_is_never_red() -> None:
    found = statuses(1.0)
    assert found[BoundStatus.EXCEEDED] == 0
    assert found[BoundStatus.KEPT] >= 20


def test_a_change_beyond_the_bound_is_red() -> None:
    found = statuses(1.03)
    assert found[BoundStatus.EXCEEDED] >= 34
    assert found[BoundStatus.KEPT] == 0


def test_a_change_at_the_bound_is_undecided() -> None:
    found = statuses(1.01)
    assert found[BoundStatus.UNDECIDED] >= 34


def test_an_improvement_keeps_the_bound() -> None:
    assert statuses(0.97)[BoundStatus.KEPT] >= 38


def until_decided(head: float, seed: int) -> BoundStatus:
    """As `compare --baseline` does, with the noise that copies of our server have."""
    horizon = anytime(deciding(SAMPLING_PLANS[Mode.QUICK])).horizon
    run, every = measured(head, seed=seed, blocks=horizon, noise=Noise(own=0.0085))
    run = updated(run, horizon=horizon)
    for blocks in range(1, horizon + 1):
        trials = tuple(trial for trial in every if trial.block < blocks)
        (found,) = bound_results(run, trials, [BOUND])
        if found.status is not BoundStatus.UNDECIDED:
            return found.status
    return BoundStatus.UNDECIDED


@pytest.mark.slow
def test_a_run_goes_on_until_the_bound_can_be_decided() -> None:
    same = Counter(until_decided(1.0, seed) for seed in range(20))
    assert same[BoundStatus.EXCEEDED] == 0
    assert same[BoundStatus.KEPT] >= 18
    more = Counter(until_decided(1.02, seed) for seed in range(20))
    assert more[BoundStatus.KEPT] == 0
    assert more[BoundStatus.EXCEEDED] >= 17


def test_the_reason_and_the_blocks_that_would_decide_are_given() -> None:
    (found,) = bound_results(*measured(1.01, seed=3), [BOUND])
    assert found.reason == "the interval contains the bound"
    assert found.ratio is not None
    assert found.load == factories.MIDDLE
    assert "undecided" in bound_sentence(found)


def test_every_undecided_bound_says_how_much_more_or_that_it_is_out_of_reach() -> None:
    both = set()
    for seed in range(12):
        (found,) = bound_results(*measured(1.01, seed=seed), [BOUND])
        if found.status is BoundStatus.UNDECIDED:
            sentence = bound_sentence(found)
            both.add(found.blocks_needed is None)
            assert ("would decide this bound" in sentence) != ("; out of reach: " in sentence)
    assert both == {True, False}


def test_a_bound_of_an_arm_without_a_verdict_names_no_number_of_blocks() -> None:
    run, _ = measured(1.01, seed=3)
    (found,) = bound_results(run, (), [BOUND])
    assert "would decide" not in bound_sentence(found)


def test_an_undecided_bound_at_a_low_load_says_so() -> None:
    run, trials = measured(1.01, seed=3)

    def idle(trial: Trial) -> Trial:
        assert trial.conditions is not None
        return updated(trial, conditions=updated(trial.conditions, server_cores_busy_fraction=0.03))

    (found,) = bound_results(run, tuple(map(idle, trials)), [BOUND])
    assert found.reason == (
        "the interval contains the bound; the servers used 3 % of their cores, and at a higher"
        " rate (-R) costs vary less"
    )


def test_the_time_that_would_decide_is_given_where_blocks_have_one() -> None:
    run, trials = measured(1.005, seed=3, blocks=4, noise=Noise(own=0.008))
    timed = tuple(updated(trial, elapsed_s=10.0 * (trial.block + 1)) for trial in trials)
    (found,) = bound_results(updated(run, horizon=30), timed, [BOUND])
    assert found.seconds_needed == 10 * (found.blocks_needed or 0) > 0
    assert re.search(r"about \d+ (s|min)[^;]* more would decide", bound_sentence(found))
    (untimed,) = bound_results(updated(run, horizon=30), trials, [BOUND])
    assert "blocks would decide" in bound_sentence(untimed)


def test_few_blocks_decide_nothing() -> None:
    (found,) = bound_results(*measured(1.5, seed=1, blocks=4), [BOUND])
    assert found.status is BoundStatus.UNDECIDED
    assert found.blocks_needed == 2


def test_an_aa_control_that_differs_prevents_a_proof() -> None:
    (found,) = bound_results(*measured(1.05, seed=1, again=1.05), [BOUND])
    assert found.status is BoundStatus.UNDECIDED
    assert found.reason.startswith("the A/A control differs, too, by more")
    (beyond,) = bound_results(*measured(1.15, seed=1, again=1.05), [BOUND])
    assert beyond.status is BoundStatus.EXCEEDED
    (kept,) = bound_results(*measured(0.95, seed=1, again=1.05), [BOUND])
    assert kept.status is BoundStatus.KEPT


def test_only_what_two_runs_prove_is_exceeded() -> None:
    proven = bound_results(*measured(1.05, seed=1), [BOUND])
    equal = bound_results(*measured(1.0, seed=2), [BOUND])
    assert confirmed(proven, proven)[0].status is BoundStatus.EXCEEDED
    (doubtful,) = confirmed(proven, equal)
    assert doubtful.status is BoundStatus.UNDECIDED
    assert "did not confirm" in doubtful.reason
    (disturbed,) = confirmed(proven, bound_results(*measured(1.05, seed=1, again=1.05), [BOUND]))
    assert "(the A/A control differs, too, by more" in disturbed.reason
    assert confirmed(equal, proven)[0].status is BoundStatus.KEPT


def test_the_other_direction_and_values_that_are_not_there() -> None:
    run, trials = measured(0.90, seed=1)
    less, rate = bound_results(
        run, trials, ["cost(head) / cost(base) < 0.95", "rate(head) < 0.9 * rate(base)"]
    )
    assert less.status is BoundStatus.EXCEEDED
    assert rate.status is BoundStatus.UNDECIDED
    assert rate.reason == "no valid trials have these values"


@pytest.mark.parametrize(("solo_blocks", "status"), [(3, "undecided"), (9, "exceeded")])
def test_a_bound_on_the_closed_loop_needs_it_in_several_blocks(
    solo_blocks: int, status: str
) -> None:
    run = factories.sliced(["base", "head"])
    truths = {
        "base": TrueValues(cost_ns=10_000, rate_rps=40_000),
        "head": TrueValues(cost_ns=10_000, rate_rps=20_000),
    }
    trials = factories.trials(run, truths, solo_blocks=solo_blocks, noise=NOISE)
    (found,) = bound_results(run, trials, ["rate(head) < 0.9 x rate(base)"])
    assert str(found.status) == status


@pytest.mark.parametrize(
    "text",
    ["cost(head)", "cost(head) > ", "errors(head) > 0", "1 < cost(a) / cost(b) < 2", "cost(a) = 3"],
)
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        read_bound(text)


def test_times_may_be_written_as_people_write_it() -> None:
    expected = read_bound("cost(head) > 1.01 * cost(base)")
    assert read_bound(BOUND) == expected
    assert read_bound("cost(head) > 1.01 \N{MULTIPLICATION SIGN} cost(base)") == expected


def test_an_unknown_arm_is_named() -> None:
    with pytest.raises(GrammarError, match="no arm 'haed'; there are base, base again, head"):
        bound_results(*measured(1.0, seed=1), ["cost(haed) > cost(base)"])


def test_a_comment_is_found_again_fits_and_is_harmless() -> None:
    run, trials = measured(1.05, seed=1)
    hostile = updated(run.arms[1], version="<script>alert(1)</script> " + "x" * 80_000)
    run = updated(run, arms=(run.arms[0], hostile, run.arms[2]))
    text = comment(summarise(run, trials), bound_results(run, trials, [BOUND]))
    assert text.startswith(MARKER)
    assert len(text) <= LENGTH_MAX
    assert "exceeded, proven" in text
    assert "<script>" not in text
    assert text.count("<details>") == text.count("</details>")


def test_a_comment_says_what_is_done_more_often() -> None:
    run, trials = measured(1.05, seed=1)
    found = bound_results(run, trials, [BOUND])

    def said(head: CounterReadings, base: CounterReadings) -> str:
        known = causes("head", "base", {"head": head, "base": base}, None)
        return comment(summarise(run, trials), found, known=known)

    base = CounterReadings(requests=400, per_request={"read": 1.0, "write": 1.0, "futex": 0.002})
    head = updated(base, per_request={"read": 1.0, "write": 2.0, "<b>": 0.5, "futex": 0.0})
    text = said(head, base)
    rows = [line for line in text.splitlines() if re.match(r"\| (write|read|futex|.*b\\>)", line)]
    assert [row.split()[1] for row in rows] == ["write", "\\<b\\>"]
    assert "2.00" in rows[0]
    assert "are the same in both" not in text
    assert "are the same in both" in said(base, base)
    uncounted = updated(head, syscalls_reason="strace is missing")
    assert "were not counted: strace is missing." in said(uncounted, base)
    assert "| write" not in said(uncounted, base)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_exports_have_every_arm_or_bound(name: str, tmp_path: Path) -> None:
    run, trials = measured(1.05, seed=1)
    with RunWriter(tmp_path / "run", run) as writer:
        for trial in trials:
            writer.add(trial)
    found = bound_results(run, trials, [BOUND])
    step = tmp_path / "step.md"
    step.write_text("of an earlier step\n")
    write_ci_files(
        tmp_path / "run",
        found,
        None,
        comment_file=tmp_path / "comment.md",
        step_summary=step,
        exports={name: tmp_path / "file"},
    )
    text = (tmp_path / "file").read_text()
    if name == "junit":
        assert '<failure message="cost(head) &gt; 1.01 x cost(base): exceeded' in text
    else:
        assert "base" in text
        assert "head" in text
    if name == "benchstat":
        assert text.count("arm=head/load=") == 9
    said = (tmp_path / "comment.md").read_text()
    assert step.read_text() == f"of an earlier step\n{said}"
    kept = hashlib.sha256((tmp_path / "run" / "trials.jsonl").read_bytes()).hexdigest()
    assert f"SHA-256 of their `trials.jsonl`: `{kept}`." in said


def test_a_quarter_of_the_blocks_has_the_control_and_each_copy_is_first_equally_often() -> None:
    plan = deciding(SAMPLING_PLANS[Mode.QUICK])
    measured_in = [index for index in range(16) if plan.has_control(index)]
    assert len(measured_in) == 4
    assert sum(index % 2 for index in measured_in) == 2
    assert all(SAMPLING_PLANS[Mode.QUICK].has_control(index) for index in range(16))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cost(head) > 1.01", "has a unit, and its number has none"),
        ("p99(head) < 5", "has a unit"),
        ("cost(head) > 1.01 x p99(base) / memory(base)", "has a unit"),
        ("rate(head) > 2 x cost(base)", "has a unit"),
        ("cost(head@hello) > 1.01 x cost(base)", "leave out @hello"),
        ("calls(head) > 2", "no calls is measured"),
        ("cost(head) < 1 < cost(base)", "is not one bound"),
        ("cost(head)", "compares nothing"),
    ],
)
def test_a_bound_that_cannot_be_decided_is_refused(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as refused:
        read_bound(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "cost(head) > 1.01 x cost(base)",
        "p99(head) / cost(head) > p99(base) / cost(base)",
        "memory(head) < 0.5 * memory(base)",
        "1.05 < cost(head) / p50(base)",
    ],
)
def test_a_bound_compares_values_of_one_unit(text: str) -> None:
    assert read_bound(text).quantities


def test_the_example_of_a_message_is_a_bound() -> None:
    with pytest.raises(GrammarError) as refused:
        read_bound("cost(one)")
    example = str(refused.value).partition("write for example ")[2]
    assert [one.arm for one in read_bound(example).quantities] == ["one", "two"]
