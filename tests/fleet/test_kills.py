"""Comparisons of which a part is killed at a random instant: what is recorded, said and left."""

import os
import random
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from jissoku import records
from jissoku.fleet.keys import ListenAddress
from jissoku.model import Trial
from jissoku.records.run_folder import RUNNING, holds_run, unfinished_reason
from jissoku.system import measurement_lock
from tests.conftest import JISSOKU
from tests.fleet.trials import (
    NAMES,
    agent_process,
    free_address,
    load_generators,
    targets_of,
    with_entry,
)

# In the environment of the agent, of the client, and of all that they start themselves.
ENTRY = "JISSOKU_KILL_TEST"

VICTIMS = ("agent", "client", "load", "target")

# About as long as the run takes from its first message.
WITHIN_S = 9.0

# Comparisons that run beside each other when many are killed: most of their time is waiting.
AT_ONCE = 4


@dataclass
class Killed:
    """What is left of a run: its folder, exit code and output, and what was killed of it."""

    folder: Path
    code: int
    said: str
    victim: str
    address: ListenAddress

    def check(self) -> None:
        """That no trial is counted twice, and that every loss is named."""
        if not holds_run(self.folder):
            assert self.code != 0, "there is nothing to report"
            return
        _, trials = records.read(self.folder)
        check_once(trials)
        reason = unfinished_reason(self.folder)
        failures = [trial.failure for trial in trials if trial.failure is not None]
        if self.victim == "agent" and self.code not in {0, 4}:
            assert self.code == 1, self.said
            assert f"the agent on {self.address.text} has" in self.said
            assert not reason or reason.startswith("the host of its targets was lost in block")
        elif self.victim == "client":
            assert self.code == -signal.SIGKILL
            assert reason in {"", RUNNING}
        elif self.victim in {"load", "target"}:
            assert self.code in {0, 1, 4}, self.said
            assert not reason, "the run goes on"
            assert all(failure.reason for failure in failures)
            named = {failure.arm for failure in failures}
            assert named <= ({""} if self.victim == "load" else {*NAMES, "floor"}), failures


def check_once(trials: tuple[Trial, ...]) -> None:
    assert [trial.index for trial in trials] == list(range(len(trials)))
    counted = Counter(
        (trial.block, trial.kind, trial.arms, trial.load_rps, trial.slice_ns)
        for trial in trials
        if trial.failure is None and not trial.failed_checks
    )
    assert all(count == 1 for count in counted.values()), counted


def eventually(is_true: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def victims(victim: str, agent: int, client: int) -> set[int]:
    """The processes that are killed; none if that part of the run is not running just now."""
    if victim == "load":
        return load_generators(client)
    if victim == "target":
        found = sorted(targets_of(agent))
        return set(found[:1])
    return {agent if victim == "agent" else client}


def killed(folder: Path, keys: Path, rng: random.Random) -> Killed:
    """Runs one comparison, and kills a part of it; both ends are clean after it."""
    address = free_address()
    entry, victim = f"{ENTRY}={uuid.UUID(int=rng.getrandbits(128))}", rng.choice(VICTIMS)
    here, there = folder / "here", folder / "there"
    here.mkdir(parents=True)
    there.mkdir()
    own = dict([entry.split("=")]) | {measurement_lock.PATH_VARIABLE: str(folder / "lock")}
    with agent_process(address, keys, environment=own | {"TMPDIR": str(there)}) as agent:
        out = folder / "run"
        words = [*JISSOKU, "compare", *NAMES, "--rate", "400", "-c", "4", "--blocks", "1"]
        words += ["--check-blocks", "0", "--seed", str(rng.getrandbits(16)), "--out", str(out)]
        words += ["--server-host", address.text, "--server-keys", str(keys)]
        with subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | own | {"TMPDIR": str(here)},
        ) as client:
            assert client.stdout is not None
            first = client.stdout.readline()
            wait_s = rng.uniform(0.0, WITHIN_S)
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline and client.poll() is None:
                time.sleep(0.01)
            # What runs for a part of the time only is waited for.
            while client.poll() is None:
                if found := victims(victim, agent.pid, client.pid):
                    for pid in found:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    break
                time.sleep(0.002)
            said = first + client.stdout.read()
        eventually(lambda: not targets_of(agent.pid))
    eventually(lambda: not with_entry(entry))
    eventually(lambda: not any(there.iterdir()))
    eventually(lambda: not any(here.iterdir()))
    return Killed(out, client.returncode, said, victim, address)


def run_kills(folder: Path, keys: Path, count: int, seed: int) -> Counter[str]:
    """Kills parts of comparisons, one after the other; returns how often each part was killed."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    for number in range(count):
        one = killed(folder / str(number), keys, rng)
        seen[one.victim] += 1
        one.check()
    return seen


@pytest.mark.race
@pytest.mark.timeout(900)
def test_kills_at_random_instants(keys_folder: Path, tmp_path: Path) -> None:
    assert run_kills(tmp_path, keys_folder, 5, seed=1).total() == 5


@pytest.mark.endurance
def test_five_hundred_kills_at_random_instants(keys_folder: Path, tmp_path: Path) -> None:
    def run(seed: int) -> Counter[str]:
        return run_kills(tmp_path / str(seed), keys_folder, 500 // AT_ONCE, seed)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = sum(pool.map(run, range(2, 2 + AT_ONCE)), Counter[str]())
    assert seen.total() == 500
    print(f"\nkilled: {dict(sorted(seen.items()))}")  # noqa: T201 - what was done
