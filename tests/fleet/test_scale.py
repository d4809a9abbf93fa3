"""A hundred agents and a thousand comparisons, which are records that there are."""

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
import pytest

from jissoku.fleet import plan as plans
from jissoku.fleet.machines import measure_machines
from jissoku.records import machines as store
from jissoku.system import measurement_lock
from tests.fleet.campaigns import Bench, recorded, running, trials
from tests.fleet.conftest import VERSION

BENCHES, COMPARISONS = 100, 10

# How often a comparison's process is killed, or a connection is cut, while they run.
FAULT_EVERY_S = 0.15

# Memory may grow by this part from the first comparisons to the last, beside what is measured at
# the same time.
GROWTH_MAX = 0.1


@dataclass
class Faults:
    """Kills processes of comparisons, and cuts connections, until it is stopped."""

    benches: Sequence[Bench]
    killed: int = 0
    cut: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        rng = random.Random(1)
        while not self.stop.wait(FAULT_EVERY_S):
            bench = rng.choice(self.benches)
            running_now = bench.campaigns._running
            if running_now is not None and rng.random() < 0.5:
                with suppress(ProcessLookupError):
                    os.kill(running_now.process.pid, signal.SIGKILL)
                    self.killed += 1
            else:
                bench.cut()
                self.cut += 1


def plan_file(folder: Path, benches: Sequence[Bench], keys: Path) -> Path:
    machines = ", ".join(f'"{bench.address.text}"' for bench in benches)
    comparisons = "".join(
        f'[[comparison]]\nname = "c{number}"\ncompare = "a b"\n' for number in range(COMPARISONS)
    )
    file = folder / "plan.toml"
    file.write_text(f'machines = [{machines}]\nkeys = "{keys}"\n{comparisons}')
    return file


@pytest.mark.endurance
def test_a_hundred_machines_and_a_thousand_comparisons(
    keys_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(measurement_lock.PATH_VARIABLE, str(tmp_path / "lock"))
    source, out = recorded(tmp_path / "source"), tmp_path / "run"
    folders = (tmp_path / "benches" / str(number) for number in range(BENCHES))
    benches = [Bench(keys_folder, folder, source) for folder in folders]
    began, sizes = time.monotonic(), list[int]()

    def note(text: str) -> None:
        if text.endswith("finished."):
            sizes.append(psutil.Process().memory_info().rss)

    with running(benches):
        found = plans.new_plans(plan_file(tmp_path, benches, keys_folder), out, VERSION)
        with Faults(benches) as faults:
            assert measure_machines(found, note) == (True, "")
        lost = [one for one in plans.status(out) if not one.endswith("finished")]
        again = plans.resumed_plans(out, VERSION)
        assert measure_machines(again, note, is_resumed=True) == (True, "")
    for plan in found:
        done = store.read_outcomes(plan.folder)
        assert sorted(done) == list(range(1, BENCHES + 1))
        assert not any(one.reason for one in done.values())
        for machine, place in store.newest_records(plan.folder, BENCHES):
            assert trials(place) == trials(source), (plan.folder.name, machine)
    leases = [path for bench in benches for path in bench.folder.glob("*/*/lease.json")]
    assert len(leases) == BENCHES * COMPARISONS + len(lost), (
        "each was begun once, and again if lost"
    )
    middle, last = sizes[len(sizes) // 2], max(sizes[-20:])
    print(  # noqa: T201
        f"{len(leases)} campaigns in {time.monotonic() - began:.0f} s, {faults.killed} killed,"
        f" {faults.cut} cut, {len(lost)} measured again; memory {middle / 2**20:.0f} MiB in the"
        f" middle, {last / 2**20:.0f} MiB at the end"
    )
    assert last < (1 + GROWTH_MAX) * middle
