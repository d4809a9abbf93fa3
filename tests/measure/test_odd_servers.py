"""Servers with limits of their own, compared with one that has none: what the report says."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jissoku import inference, records
from jissoku.design.sampling_plan import SAMPLING_PLANS, SECOND, SamplingPlan
from jissoku.measure.compare import compare
from jissoku.measure.trial import PreparedArm
from jissoku.model import Load, LoadLevel, MeasurementStatus, Metric, Mode, Summary, Verdict
from jissoku.model.updated import updated
from jissoku.targets.command import from_command
from jissoku.targets.placeholders import BuildPaths
from tests.measure import odd_servers
from tests.measure.conftest import Asks, CollectingListener

pytestmark = pytest.mark.slow

# As in quick mode, with few blocks and without searches.
PLAN = updated(
    SAMPLING_PLANS[Mode.QUICK],
    blocks_max=3,
    horizon=3,
    closed_loop_blocks=1,
    fixed_rate_blocks=1,
    cross_check_blocks=0,
    capacity_blocks=0,
    window_ns=SECOND // 5,
)

Compares = Callable[..., tuple[Summary, list[str]]]


@pytest.fixture
def compares(asks: Asks, tmp_path: Path) -> Compares:
    """Compares a plain server with one of another kind; returns the summary and all notes."""

    def arm(kind: str) -> PreparedArm:
        words = shlex.join([sys.executable, odd_servers.__file__, kind])
        place = BuildPaths(cache=tmp_path / "cache", files=tmp_path / "files")
        prepared = from_command(f"{kind}={words} {{port}}", place)
        return PreparedArm(prepared.arm(), prepared)

    def run(
        *kinds: str, rate: int = 0, connections: int = 16, plan: SamplingPlan = PLAN
    ) -> tuple[Summary, list[str]]:
        config = asks({})
        config = updated(
            config,
            arms_prepared=tuple(map(arm, kinds)),
            plan=plan,
            loads=(Load(rate_rps=rate, level=LoadLevel.GIVEN),) if rate else (),
            workload=updated(config.workload, connections=connections),
        )
        listener = CollectingListener()
        assert compare(config, listener)
        return inference.summarise(*records.read(config.folder)), listener.notes

    return run


def titles(summary: Summary) -> str:
    return "\n".join(f"{one.title}: {one.remedy}" for one in summary.warnings)


def test_a_slow_server_gets_loads_that_it_reaches(compares: Compares) -> None:
    summary, _ = compares("plain", "single")
    # It answers at most 20 requests/s, and fewer beside other programs.
    (load,) = summary.loads
    assert load.rate_rps in {1, 2, 5, 10}
    (cost,) = summary.by(Metric.COST)
    assert cost.verdict is not Verdict.UNREACHED
    assert cost.ratio is not None


def test_a_rate_that_it_does_not_reach_is_named_and_ends_the_run(compares: Compares) -> None:
    summary, _ = compares("plain", "single", rate=80)
    (cost,) = summary.by(Metric.COST)
    assert cost.verdict is Verdict.UNREACHED
    assert "single did not reach 80 requests/s (answered " in cost.sentence
    assert "single did not reach 80 requests/s (answered " in summary.headline
    assert "single did not reach 80 requests/s: Choose a lower rate (-R " in titles(summary)
    assert summary.blocks <= 2, "no further block is measured"


def test_a_short_listen_queue_is_no_disturbance_of_the_machine(compares: Compares) -> None:
    summary, notes = compares("plain", "short-queue", connections=64)
    said = "short-queue turned connections away: its listen queue holds 5 connections"
    assert any(note.startswith(said) for note in notes), "at once"
    assert said in titles(summary)
    assert "-c 5" in titles(summary)
    assert "A listen queue overflowed" not in titles(summary)


def test_delayed_acknowledgements_are_named_at_once(compares: Compares) -> None:
    summary, notes = compares("plain", "delayed")
    said = "Nagle's algorithm waits for delayed acknowledgements"
    assert any(said in note for note in notes)
    assert said in titles(summary)
    assert "delayed works on" not in titles(summary)


def test_a_connection_for_each_request_is_named(compares: Compares) -> None:
    summary, _ = compares("plain", "closing")
    assert "closing closes the connection after every answer" in titles(summary)


def test_a_plain_server_has_no_such_limit(compares: Compares) -> None:
    summary, _ = compares("plain", "sleeping")
    assert not [one.title for one in summary.warnings if one.next_command]


def test_a_server_that_ends_is_measured_no_further(compares: Compares) -> None:
    summary, notes = compares("plain", "dying")
    (dying,) = [one for one in summary.arm_summaries if one.arm.name == "dying"]
    assert dying.status is MeasurementStatus.FAILED
    assert notes[-1] == "No pair is left that could be decided: the run ends here."
    (failed,) = [one for one in summary.warnings if one.title.startswith("dying failed")]
    exited = f"dying exited with code {odd_servers.DEATH} under load (first in block 1, "
    assert exited in failed.text
    assert "out of widgets" in failed.detail
    assert summary.trials_total <= 4


def test_the_pairs_without_it_go_on(compares: Compares) -> None:
    # At most two blocks, those in which `dying` ends, are lost for the other targets, too.
    plan = updated(PLAN, blocks_max=5, horizon=5)
    summary, _ = compares("plain", "dying", "sleeping", plan=plan)
    by_pair = {(one.arm, one.against): one for one in summary.by(Metric.COST)}
    assert by_pair["sleeping", "plain"].ratio is not None
    assert by_pair["dying", "plain"].verdict is Verdict.FAILED
