"""How long the campaigns of a tuning may take, by a clock that they set themselves."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from jissoku.design.sampling_plan import SAMPLING_PLANS, tuning_time
from jissoku.design.variants import BASELINE, PROVEN, Combination, name_alone
from jissoku.measure import tune as stage
from jissoku.measure.comparison import CompareConfig
from jissoku.measure.knob_changes import TuningTarget
from jissoku.measure.pilot import Pilot
from jissoku.measure.progress import ProgressListener
from jissoku.model import CoreAssignment, CounterReadings, Mode, Run, Trial, TuningResult, Workload
from jissoku.model.updated import updated
from jissoku.system.interruption import Interruption
from tests.inference import factories
from tests.inference.factories import TrueValues
from tests.tune.test_ablation import KNOB

KNOBS = (KNOB, updated(KNOB, name="other"), updated(KNOB, name="third"))
PLAN = SAMPLING_PLANS[Mode.QUICK]


@pytest.mark.parametrize("saves", [0, 1])
def test_all_campaigns_end_in_the_time_that_was_said(
    saves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each campaign takes all the time that it may, because a knob stays undecided."""
    now, campaigns = [0.0], []
    paying = {name_alone(knob.name) for knob in KNOBS[:saves]} | {PROVEN}

    def measured(
        config: CompareConfig,
        name: str,
        _: TuningTarget,
        combinations: Sequence[Combination],
        __: ProgressListener,
    ) -> tuple[bool, Run, tuple[Trial, ...]]:
        campaigns.append(name)
        now[0] += config.plan.seconds
        names = [one.name for one in combinations]
        run = updated(factories.run(names), verb="tune", baseline=BASELINE)
        truths = {arm: TrueValues(cost_ns=5_000 - 2_000 * (arm in paying)) for arm in names}
        return True, run, tuple(factories.trials(run, truths))

    monkeypatch.setattr(stage, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(stage, "_measured", measured)
    found = Pilot(connections=64, window_ns=1, paired_window_ns=1, requests_counted=40)
    monkeypatch.setattr(stage._Tuner, "_pilot", lambda _: found)
    monkeypatch.setattr(stage._Tuner, "_count_all", lambda *_: None)
    config = CompareConfig(
        arms_prepared=(),
        workload=Workload(),
        mode=Mode.QUICK,
        plan=PLAN,
        seed=1,
        cores=CoreAssignment(server=(0,), generator=(1,)),
        folder=tmp_path,
        version="1",
    )
    target = TuningTarget(
        name="mine", knobs=KNOBS, prepared=lambda _: pytest.fail("it starts"), diff=lambda _: ""
    )
    tuner = stage._Tuner(target, config, ProgressListener(), Interruption())
    tuner.counts = {name: CounterReadings(requests=400) for name in (BASELINE, *tuner.names)}
    tuner.look()
    tuner.by_cost(
        TuningResult(target="mine", path="/", jissoku="1", seed=1, results=(), sandbox=())
    )
    said = tuning_time(3, 3, 0, PLAN, pay=False)
    assert campaigns[0] == "alone"
    assert 0.7 * said.likely_s <= now[0] <= said.most_s == pytest.approx(1.2 * said.likely_s)
