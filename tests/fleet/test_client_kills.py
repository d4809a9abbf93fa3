"""A client that is killed at random instants, and resumed: every line once, and the same report."""

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from jissoku.measure.machines import write_machines_reports
from jissoku.records import machines as store
from jissoku.system import measurement_lock
from tests.fleet.campaigns import Bench, begun, measured, plan_of, recorded, running, trials
from tests.fleet.conftest import VERSION

# Lines that the campaigns may write beyond those that are copied when a client starts.
AHEAD = 4

REPORTS = ("report.html", "report.json", "report.txt")


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(10, marks=pytest.mark.slow),
        pytest.param(100, marks=pytest.mark.endurance),
    ],
)
def test_kills_at_random_instants(
    keys_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setenv(measurement_lock.PATH_VARIABLE, str(tmp_path / "lock"))
    steps, rng = tmp_path / "steps", random.Random(kills)
    benches = [
        Bench(
            keys_folder,
            tmp_path / f"bench{number}",
            recorded(tmp_path / f"source{number}", seed=number),
            steps,
        )
        for number in (1, 2, 3)
    ]
    total = max(trials(bench.source).count(b"\n") for bench in benches)
    folder = tmp_path / "run"
    steps.touch()
    known = dict.fromkeys(range(1, 4), b"")
    with running(benches):
        plan = plan_of(benches, folder)
        for kill in range(kills):
            # The last lines come after the last kill.
            steps.write_bytes(b"." * min(total - 1, kill * total // kills + AHEAD))
            with subprocess.Popen(
                [sys.executable, "-m", "tests.fleet.resumed", str(folder), VERSION],
                stdout=subprocess.PIPE,
                text=True,
            ) as client:
                assert client.stdout is not None
                assert client.stdout.readline() == "ready\n"
                with suppress(subprocess.TimeoutExpired):
                    client.wait(rng.uniform(0.0, 0.5))
                client.kill()
            for machine, place in store.newest_records(folder, 3):
                if (place / "trials.jsonl").exists():
                    now = trials(place)
                    assert now.startswith(known[machine]), "what was copied stays"
                    known[machine] = now[: now.rfind(b"\n") + 1]
        assert any(known.values())
        steps.write_bytes(b"." * (total + 1))
        measured(plan, is_resumed=True)
    assert [begun(bench) for bench in benches] == [1, 1, 1]
    for machine, bench in enumerate(benches, 1):
        assert trials(folder / f"machine-{machine}") == trials(bench.source)
    write_machines_reports(folder)
    interrupted = [(folder / name).read_bytes() for name in REPORTS]
    whole = tmp_path / "whole"
    store.create(whole, plan.run, plan.resume)
    for machine, bench in enumerate(benches, 1):
        (whole / f"machine-{machine}").symlink_to(bench.source)
    write_machines_reports(whole)
    assert [(whole / name).read_bytes() for name in REPORTS] == interrupted
