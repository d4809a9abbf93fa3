"""Two hosts on this machine, and what an emulated network between them does to a measurement.

What takes long is loaded; figures are compared with what is known of the network, never speeds.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku import inference, records
from jissoku.cli.frame import version_line
from jissoku.errors import InputError
from jissoku.fleet import emulated
from jissoku.fleet.emulated import EmulatedBench, emulated_bench
from jissoku.model import Trial, TrialKind, updated
from tests.conftest import JISSOKU, LIMIT_S
from tests.fleet.trials import started

MS = 1_000_000

FILE = """title = "Tiny"
description = "Two servers over two networks."

[[target]]
name = "ours"
recipe = "jissoku"

[[target]]
name = "python"
recipe = "http-server"

[[workload]]
name = "far"
connections = 4
rate = 400
network = "delay 4ms"

[[workload]]
name = "slow"
path = "/files/64k.bin"
connections = 4
arms = ["ours"]
closed_loop = true
network = "rate 100Mbit/s queue 512K"

[[claim]]
name = "hidden"
text = "Both are as late."
test = ["0.5 < p50(ours@far) / p50(python@far) < 2", "p50(ours@far) > 8_000_000"]

[[claim]]
name = "shown"
text = "And not as cheap."
test = ["cost(ours@far) < cost(python@far)"]

[[claim]]
name = "link"
text = "The link is the limit."
test = ["rate(ours@slow) < 191"]
"""


@pytest.fixture
def bench() -> Iterator[EmulatedBench]:
    try:
        with emulated_bench(version_line()) as found:
            yield found
    except InputError as error:
        pytest.skip(str(error))


def measured(bench: EmulatedBench) -> Trial:
    with started(bench) as found:
        trial = found.measured()
    return updated(trial, failed_checks=inference.trial_checks(trial))


def cost_ratio(trial: Trial) -> float:
    costs = [(one.cpu_ns or 0) / one.requests for one in trial.measurements]
    return costs[0] / costs[1]


@pytest.mark.race
def test_a_delay_on_one_way_is_in_the_bound_and_moves_no_ratio(bench: EmulatedBench) -> None:
    """The clocks are the same one, so that the true offset is 0."""
    before = measured(bench)
    bench.network.use("there delay 5ms")
    bound = bench.clock()
    assert bound.offset_ns > 2 * MS, "the delay shifts it"
    assert abs(bound.offset_ns) <= bound.error_ns, "and the bound says so"
    trial = measured(bench)
    assert trial.failure is None
    assert trial.conditions is not None
    assert (trial.conditions.edge_error_ns or 0) > 2.5 * MS
    assert all(one.latency_ns.min > 5 * MS for one in trial.measurements)
    # One of the servers costs ten times as much as the other.
    assert 0.5 < cost_ratio(trial) / cost_ratio(before) < 2
    (load,) = trial.conditions.load_hosts
    assert (load.path_ns or 0) > 5 * MS


@pytest.mark.race
def test_lost_segments_are_said_and_blame_no_server(bench: EmulatedBench) -> None:
    bench.network.use("delay 1ms loss 1%")
    trial = measured(bench)
    assert trial.failure is None
    assert not inference.is_rejected(trial)
    counted = bench.network.forwarded()
    assert counted["there"]["lost"] + counted["back"]["lost"] > 0
    assert "path-losses" in {one.name for one in trial.failed_checks}
    assert not {one.arm for one in trial.failed_checks if one.outcome == "invalid"}


@pytest.mark.endurance  # two minutes and a half
def test_an_experiment_over_networks_is_answered(tmp_path: Path) -> None:
    file, folder = tmp_path / "tiny.toml", tmp_path / "out"
    file.write_text(FILE)
    words = [*JISSOKU, "run", str(file), "--out", str(folder), "--seed", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode == 2:
        pytest.skip(done.stderr)
    # A busy machine may leave claims undecided.
    assert done.returncode in {0, 4}, done.stderr
    found = json.loads((folder / "report.json").read_text())
    states = {one["claim"]["name"]: one["status"] for one in found["claims"]}
    assert "does not hold" not in states.values(), states
    run, trials = records.read(folder / "far")
    assert run.load_host is not None
    assert run.load_host.network == "delay 4ms"
    assert emulated.FAR not in (folder / "far" / "run.json").read_text(), "it names no host"
    assert TrialKind.TIME_SLICED in {trial.kind for trial in trials}
    bounds = {
        one["arm"]["name"]: one["bottleneck"] for one in found["summaries"]["slow"]["arm_summaries"]
    }
    assert bounds["ours"] == "path-bound"
    counted = json.loads((folder / "slow" / "network.json").read_text())
    assert counted["back"]["departed"] > counted["there"]["lost"] == 0
