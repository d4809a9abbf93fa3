"""The bounds of `jissoku self-test`: from finished campaigns to a table and an exit code."""

import itertools
import math
import random
from pathlib import Path

import pytest

from jissoku.cli.frame import ExitCode
from jissoku.cli.progress import ProgressDisplay
from jissoku.cli.self_test import SelfTestOptions, _config, bounds_code, read_loads
from jissoku.inference import decision, self_test as bounds
from jissoku.inference.self_test import BoundState
from jissoku.measure.progress import SeriesProgress
from jissoku.measure.self_test import SelfTestPlan, slowed
from jissoku.model import (
    Comparison,
    Estimate,
    Load,
    LoadLevel,
    Method,
    Origin,
    StartCommand,
    Trial,
    TrialKind,
    Verdict,
)
from jissoku.model.updated import updated
from jissoku.targets.prepare import PreparedTarget
from tests.conftest import Run
from tests.inference import factories

MIDDLE = Load(rate_rps=5_000, level=LoadLevel.MEDIUM)
PAIR = Comparison(arm="again", against="ours", verdict=Verdict.INCONCLUSIVE, load=MIDDLE)
SILENT = updated(PAIR, verdict=Verdict.INVALID)


def _campaigns(count: int, ratio: float, *, sd: float = 0.006, seed: int = 1) -> list[Comparison]:
    """`count` campaigns of nine blocks with this true ratio, decided as the lab decides."""
    rng = random.Random(seed)
    logs = [[math.log(ratio) + rng.gauss(0, sd) for _ in range(9)] for _ in range(count)]
    found = [decision.decide(PAIR, dict(enumerate(blocks))) for blocks in logs]
    return [decision.settle([one])[0] for one in found]


@pytest.mark.parametrize(("campaigns", "allowed"), [(0, 0), (1, 1), (20, 3), (40, 5), (60, 7)])
def test_as_many_false_alarms_as_chance_explains(campaigns: int, allowed: int) -> None:
    assert bounds.false_alarms_max(campaigns) == allowed


@pytest.mark.parametrize(("campaigns", "needed"), [(5, 4), (10, 9), (20, 18), (30, 27)])
def test_injected_work_has_to_be_found_nine_times_in_ten(campaigns: int, needed: int) -> None:
    assert bounds.detections_min(campaigns) == needed


def test_equal_arms_keep_their_bound() -> None:
    row = bounds.check_false_alarms("equal", _campaigns(20, 1.0))
    assert (row.state, row.campaigns, row.bound) == (BoundState.PASS, 20, "at most 3")


def test_arms_that_differ_break_it() -> None:
    row = bounds.check_false_alarms("equal", [*_campaigns(16, 1.0), *_campaigns(4, 1.05)])
    assert (row.state, row.result) == (BoundState.FAIL, "4 called different")


def test_injected_work_that_is_found_keeps_its_bound() -> None:
    found, sign = bounds.check_detection("injected", _campaigns(10, 1.02))
    assert (found.state, sign.state) == (BoundState.PASS, BoundState.PASS)
    assert found.result.startswith("10 found, +")
    assert found.bound == "at least 9"


def test_injected_work_that_is_lost_in_noise_breaks_it() -> None:
    found, sign = bounds.check_detection("injected", _campaigns(10, 1.02, sd=0.08))
    assert (found.state, sign.state) == (BoundState.FAIL, BoundState.PASS)


def test_a_wrong_sign_breaks_its_bound_once() -> None:
    found, sign = bounds.check_detection("injected", [*_campaigns(9, 1.02), *_campaigns(1, 0.98)])
    assert (found.state, sign.state) == (BoundState.PASS, BoundState.FAIL)


@pytest.mark.parametrize(
    ("ratio", "state"), [(1.05, BoundState.PASS), (1.02, BoundState.FAIL), (1.10, BoundState.FAIL)]
)
def test_unlike_arms_have_to_move_by_what_was_injected(ratio: float, state: BoundState) -> None:
    plain = _campaigns(4, 0.8, sd=0.012, seed=2)
    slow = _campaigns(4, 0.8 * ratio, sd=0.012, seed=3)
    row = bounds.check_shift("unlike", plain, slow, 0.05)
    assert (row.state, row.campaigns) == (state, 8)


def test_an_interval_that_holds_everything_decides_nothing() -> None:
    plain = _campaigns(3, 0.8, sd=0.3, seed=4)
    slow = _campaigns(3, 0.8, sd=0.3, seed=5)
    assert bounds.check_shift("unlike", plain, slow, 0.05).state is BoundState.UNDECIDED
    assert bounds.check_shift("unlike", plain[:1], slow, 0.05).state is BoundState.UNDECIDED


def test_a_pair_that_gives_two_answers_breaks_its_bound() -> None:
    alike, other = _campaigns(2, 1.3, seed=6), _campaigns(1, 1.4, seed=7)
    assert bounds.check_repeatability("pair", alike).state is BoundState.PASS
    assert bounds.check_repeatability("pair", [alike[0], *other]).state is BoundState.FAIL


def test_each_campaign_is_held_against_one_other() -> None:
    row = bounds.check_repeatability("pair", _campaigns(5, 1.3, seed=6))
    assert (row.result, row.campaigns) == ("0 of 2 pairs disjoint", 5)


def test_campaigns_without_a_ratio_are_left_out() -> None:
    row = bounds.check_false_alarms("equal", [*_campaigns(3, 1.0), SILENT])
    assert (row.campaigns, row.state) == (3, BoundState.PASS)
    assert bounds.check_false_alarms("equal", [SILENT]).state is BoundState.UNDECIDED
    assert {row.state for row in bounds.check_detection("injected", [SILENT])} == {
        BoundState.UNDECIDED
    }
    assert bounds.check_repeatability("pair", [SILENT, SILENT]).state is BoundState.UNDECIDED


def test_the_noise_floor_is_what_nineteen_in_twenty_stay_within() -> None:
    logs = [sign * 0.001 * step for step in range(1, 21) for sign in (1, -1)]
    found = [
        updated(PAIR, ratio=Estimate(value=math.exp(log), low=0.9, high=1.1, blocks=9, sd_log=0.01))
        for log in logs
    ]
    assert bounds.noise_floor(found) == pytest.approx(math.expm1(0.019), rel=0.02)
    assert bounds.noise_floor([]) is None
    assert bounds.noise_floor([SILENT]) is None


def test_the_spread_is_pooled_over_campaigns() -> None:
    assert bounds.pooled_sd(_campaigns(50, 1.0, sd=0.01)) == pytest.approx(0.01, rel=0.1)
    assert bounds.pooled_sd([]) is None


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ({BoundState.PASS}, ExitCode.OK),
        ({BoundState.PASS, BoundState.UNDECIDED}, ExitCode.UNDECIDED),
        (set(BoundState), ExitCode.BOUND_EXCEEDED),
    ],
)
def test_the_bounds_code_is_the_worst_bound(states: set[BoundState], code: int) -> None:
    assert bounds_code(states) == code


def _prepared(name: str) -> PreparedTarget:
    start = StartCommand(command=("serve", "--port", "{port}"))
    return PreparedTarget(
        name=name, origin=Origin.RECIPE, version="1.0", start=start, compiles=name == "node"
    )


def _plan(*names: str, campaigns: int = 20) -> SelfTestPlan:
    return SelfTestPlan(targets=tuple(map(_prepared, names)), campaigns=campaigns)


def test_the_plan_holds_every_series() -> None:
    plan = _plan("jissoku", "go", "node", "nginx-tuned")
    expected = list(plan.expected(MIDDLE))
    methods = [campaign.method for campaign in expected]
    assert methods.count(None) == 30, "20 of equal arms, 10 with injected work"
    assert methods.count(Method.TIME_SLICED) == 28, "20 of equal arms, 4 and 4 of an unlike pair"
    assert methods.count(Method.SINGLE) == 2
    sliced = [one.against[0] for one in plan.series(MIDDLE)["time-sliced"]]
    assert [sliced.count(name) for name in ("go", "node", "nginx-tuned")] == [5, 5, 5]
    assert 600 < sum(campaign.seconds for campaign in expected) < 1800


def test_ours_is_compared_with_nginx_or_else_with_go() -> None:
    others = {
        names: other.name if (other := _plan("jissoku", *names).other) else None
        for names in (("go", "node", "nginx-tuned"), ("node", "go"), ("node",), ())
    }
    assert list(others.values()) == ["nginx-tuned", "go", None, None]


def test_one_campaign_has_one_of_each_series_and_two_of_a_repetition() -> None:
    methods = [one.method for one in _plan("jissoku", "go", campaigns=1).expected(MIDDLE)]
    assert [methods.count(method) for method in (None, Method.TIME_SLICED, Method.SINGLE)] == [
        2,
        5,
        1,
    ]


def test_injected_work_is_a_word_of_the_command() -> None:
    name, prepared = slowed(_prepared("jissoku"), 700, 0.02)
    assert name == "jissoku +2%"
    assert prepared.start is not None
    assert prepared.start.command[-2:] == ("--busy-ns", "700")
    assert prepared.name == "jissoku", "it is the same program: the rule sees like arms"


class Shown(ProgressDisplay):
    """Collects what a bar would show."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.seen: list[tuple[int, int, float]] = []

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        del trial
        self.seen.append((done, total, seconds_left))


def test_progress_is_that_of_all_campaigns() -> None:
    shown = Shown()
    progress = SeriesProgress(shown, seconds=40.0, trials=8)
    trial = factories.trial(
        TrialKind.PAIRED, factories.arm_measurement("a"), factories.arm_measurement("b")
    )
    for _ in range(2):
        progress.begin(20.0, 4)
        for done in range(1, 5):
            progress.trial(trial, done, 4, 99.0)
        progress.end("one more")
    assert [done for done, _, _ in shown.seen] == list(range(1, 9))
    assert {total for _, total, _ in shown.seen} == {8}
    assert shown.seen[-1][2] == 0.0
    assert all(left >= 0 for _, _, left in shown.seen)


def test_loads_are_read_by_their_names() -> None:
    assert read_loads("heavy, light") == (LoadLevel.LIGHT, LoadLevel.HEAVY)
    for names in itertools.permutations(("light", "medium", "heavy")):
        assert read_loads(",".join(names)) == (
            LoadLevel.LIGHT,
            LoadLevel.MEDIUM,
            LoadLevel.HEAVY,
        )


def test_an_unknown_load_is_refused(run: Run, tmp_path: Path) -> None:
    done = run(["self-test", "--loads", "medium,full"], tmp_path)
    assert done.returncode == 2
    assert "'full' is not a load: there are light, medium, heavy" in done.stderr


def test_records_go_to_a_new_folder_or_to_the_one_that_is_named(tmp_path: Path) -> None:
    options = SelfTestOptions(campaigns=1, loads=(LoadLevel.MEDIUM,), seed=1, out=None)
    assert _config(options).folder.name.endswith("-self-test")
    named = updated(options, out=tmp_path)
    assert _config(named).folder == tmp_path
