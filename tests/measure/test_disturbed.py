"""A stalled load generator, and a target that runs out of memory: both are recorded."""

import threading
from pathlib import Path

import psutil
import pytest

from jissoku import records
from jissoku.measure.compare import compare
from jissoku.model import CheckOutcome, TrialStage
from jissoku.system import processes
from jissoku.targets import process as target_process
from tests.measure.conftest import Asks, CollectingListener

pytestmark = [pytest.mark.race, pytest.mark.timeout(240)]

STOPPED_S = 0.5

# On a busy machine the event of an open window can be read before its clocks are.
INTO_WINDOW_S = 0.1


def load_generators() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "load" in child.cmdline()]


class StopOnce:
    """Stops the load generator for half a second in the first window with turns; there it spins.

    The CPU time of kernel threads is read when a window opens, so a window is open then.
    """

    def __init__(self) -> None:
        self.stopped = 0
        self._read = processes.kernel_cpu_ns

    def cpu_ns(self) -> dict[int, int]:
        for process in load_generators():
            if not self.stopped and "--slice" in process.cmdline():
                self.stopped += 1
                threading.Timer(INTO_WINDOW_S, process.suspend).start()
                threading.Timer(INTO_WINDOW_S + STOPPED_S, process.resume).start()
        return self._read()


def test_a_load_generator_that_was_stopped_costs_its_trial(
    asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = StopOnce()
    monkeypatch.setattr(processes, "kernel_cpu_ns", stop.cpu_ns)
    config = asks({"one": "", "other": ""}, rate_rps=200)
    assert compare(config, CollectingListener())
    assert stop.stopped == 1
    _, trials = records.read(config.folder)
    rejected = [
        (trial, check)
        for trial in trials
        for check in trial.failed_checks
        if check.name == "stall" and check.outcome is CheckOutcome.REJECT
    ]
    assert rejected
    trial, check = rejected[0]
    assert "the load generator did not run for" in check.message
    assert not trial.is_valid
    again = trials[trial.index + 1]
    assert (again.kind, again.arms, again.attempt) == (trial.kind, trial.arms, trial.attempt + 1)


GROWS = """
def answer(count):
    if count > 20:
        with open({vmstat!r}, "w") as file: file.write("oom_kill 8")
        os.kill(os.getpid(), 9)
    return b"Hello, World!"
"""

# Limited by setrlimit(2), a program is refused memory, and says so itself.
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
def answer(count):
    if count > 20:
        try:
            return b"x" * (1 << 30)
        except MemoryError:
            print("no memory left", file=sys.stderr, flush=True)
            os._exit(1)
    return b"Hello, World!"
"""


def test_a_target_that_the_oom_killer_ends_is_a_failure_with_that_reason(
    asks: Asks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("oom_kill 7")
    monkeypatch.setattr(target_process, "VMSTAT", vmstat)
    config = asks({"good": "", "bad": GROWS.format(vmstat=str(vmstat))})
    assert compare(config, CollectingListener())
    _, trials = records.read(config.folder)
    first = next(trial for trial in trials if "bad" in trial.arms)
    assert first.failure is not None
    assert (first.failure.arm, first.failure.stage) == ("bad", TrialStage.LOAD)
    assert "was killed by SIGKILL (out of memory: the kernel's" in first.failure.reason
    assert any(trial.arms == ("good",) and trial.failure is None for trial in trials)


def test_a_target_that_is_refused_memory_is_a_failure_in_its_own_words(asks: Asks) -> None:
    config = asks({"good": "", "bad": LIMITED})
    assert compare(config, CollectingListener())
    _, trials = records.read(config.folder)
    failed = [trial.failure for trial in trials if trial.failure is not None]
    assert failed
    assert {failure.arm for failure in failed} == {"bad"}
    assert "exited with code 1 under load" in failed[0].reason
    assert "no memory left" in failed[0].stderr
