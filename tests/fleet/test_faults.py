"""Every fault of faults.toml: what is built has a test, and the page says what happens."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jissoku import inference
from jissoku.errors import HostLost, TargetError
from jissoku.fleet.clock import ClockStep
from jissoku.fleet.connecting import connected
from jissoku.fleet.keys import CLIENT, ListenAddress, make_keys, read_keys
from jissoku.fleet.remote import RemoteHost, _unobserved
from jissoku.measure.loadgen import LoadgenError
from jissoku.model import Trial, TrialStage, Workload, updated
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from tests.fleet import trials
from tests.fleet.conftest import SERVER, VERSION, RunningAgent
from tests.fleet.faults import FAULTS, TABLE, Fault, between
from tests.fleet.trials import agent_process, bench, in_window, started, targets_of

ROOT = Path(__file__).parents[2]
HERE = trials.free_address()


def eventually(is_true: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def measured(host: RemoteHost) -> Trial:
    with started(host) as found:
        return found.measured()


def is_void(trial: Trial) -> bool:
    """Whether a trial failed, or is measured again."""
    checked = updated(trial, failed_checks=inference.trial_checks(trial))
    return trial.failure is not None or inference.is_rejected(checked)


def test_all_faults_of_the_specification_have_a_row() -> None:
    assert [fault.number for fault in FAULTS] == list(range(1, 22))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.number))
def test_a_row_has_a_test_or_says_what_is_missing(fault: Fault) -> None:
    assert fault.observed or fault.missing
    assert bool(fault.tests) is bool(fault.observed)
    for named in fault.tests:
        file, _, function = named.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE), named


def test_the_page_has_the_table() -> None:
    assert between((ROOT / "docs" / "fleet.md").read_text()) == TABLE


@pytest.mark.race
def test_an_agent_that_dies_in_a_window_ends_the_run_and_leaves_nothing(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench(HERE, keys_folder) as (agent, host):
        in_window(monkeypatch, agent.kill)
        with pytest.raises(HostLost, match=rf"the agent on {HERE.text} has"):
            measured(host)
        eventually(lambda: not targets_of(agent.pid))
        eventually(lambda: not trials.load_generators(os.getpid()))


@pytest.mark.race
def test_a_supervisor_that_dies_is_replaced_and_ends_what_a_killed_agent_leaves(
    keys_folder: Path,
) -> None:
    with bench(HERE, keys_folder) as (agent, host):
        first = trials.supervisor_of(agent.pid)
        os.kill(first, signal.SIGKILL)
        with suppress(HostLost), started(host) as found:
            assert found.measured().failure is None
            assert trials.supervisor_of(agent.pid) != first
            assert targets_of(agent.pid)
            agent.kill()
            eventually(lambda: not targets_of(agent.pid))


@pytest.mark.race
def test_targets_of_an_agent_and_a_supervisor_that_were_killed_are_ended_by_the_next_agent(
    keys_folder: Path,
) -> None:
    with bench(HERE, keys_folder) as (agent, host):
        with suppress(HostLost), started(host):
            # The supervisor first: a pipe shows it the end of the other one.
            os.kill(trials.supervisor_of(agent.pid), signal.SIGKILL)
            agent.kill()
            agent.wait()
            assert targets_of(agent.pid), "no process is left to end them"
        with agent_process(HERE, keys_folder) as again:
            eventually(lambda: not targets_of(agent.pid))
            assert again.stdout is not None
            assert again.stdout.readline().startswith("Ended what a killed run has left: ")


@pytest.mark.race
def test_a_load_generator_that_dies_is_a_failure_at_stage_load_and_no_zero(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill() -> None:
        (pid,) = trials.load_generators(os.getpid())
        os.kill(pid, signal.SIGKILL)

    with bench(HERE, keys_folder) as (_, host), started(host) as found:
        in_window(monkeypatch, kill)
        trial = found.measured()
        assert trial.failure is not None
        assert (trial.failure.stage, trial.failure.arm) == (TrialStage.LOAD, "")
        assert trial.measurements == ()


@pytest.mark.race
def test_a_load_generator_that_stops_for_half_a_second_costs_its_trial(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause() -> None:
        (pid,) = trials.load_generators(os.getpid())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)

    with bench(HERE, keys_folder) as (_, host), started(host) as found:
        in_window(monkeypatch, pause)
        trial = found.measured()
        assert is_void(trial)


@pytest.mark.race
def test_a_server_that_dies_under_load_is_a_failure_of_its_arm(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench(HERE, keys_folder) as (agent, host), started(host) as found:

        def kill() -> None:
            for pid in targets_of(agent.pid):
                if b"http_server.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

        in_window(monkeypatch, kill)
        trial = found.measured()
        assert trial.failure is not None
        assert trial.failure.arm == "http-server"
        assert "SIGKILL" in trial.failure.reason
        assert not host.lost, "no host is blamed"


@pytest.mark.race
def test_an_agent_that_hangs_costs_its_trial_and_not_the_run(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench(HERE, keys_folder) as (agent, host):

        def hang() -> None:
            agent.send_signal(signal.SIGSTOP)
            threading.Timer(2.0, agent.send_signal, (signal.SIGCONT,)).start()

        with started(host) as found:
            in_window(monkeypatch, hang)
            trial = found.measured()
        assert trial.failure is not None
        assert not trial.failure.arm, "no server is blamed"
        assert "the targets were not observed: their CPU time was not read for" in (
            trial.failure.reason
        )
        with started(host) as found:
            assert found.measured().failure is None, "the session goes on"


def test_a_clock_that_was_set_fails_its_trial_and_not_the_run() -> None:
    with pytest.raises(LoadgenError, match="were not observed: the clocks"), _unobserved():
        raise ClockStep("the clocks moved")
    with pytest.raises(HostLost), _unobserved():
        raise HostLost("gone")


@contextmanager
def late_one_way(port: int, delay_s: float) -> Iterator[int]:
    """A port that leads to another one, and delays what goes there, but not the answers."""

    def pump(source: socket.socket, sink: socket.socket, wait_s: float) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                time.sleep(wait_s)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def relay() -> None:
        with suppress(OSError):
            while True:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", port))
                held.extend((here, there))
                for one in ((here, there, delay_s), (there, here, 0.0)):
                    threading.Thread(target=pump, args=one, daemon=True).start()

    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=relay, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for one in held:
                one.close()
            thread.join(10)


def test_a_delay_on_one_way_alone_is_within_the_bound_of_the_clocks(agent: RunningAgent) -> None:
    """The clocks are the same one, so that the true offset is 0."""
    with (
        late_one_way(agent.agent.port, 0.005) as port,
        connected(ListenAddress("127.0.0.1", port), read_keys(agent.keys, CLIENT), VERSION) as host,
    ):
        bounds = [host.clock() for _ in range(3)]
    for bound in bounds:
        assert bound.offset_ns > 2_000_000, "the delay shifts it"
        assert abs(bound.offset_ns) <= bound.error_ns, "and the bound says so"


def test_a_full_disk_there_is_a_failed_start(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with agent.client() as host:
        host.assign_cores(None, None)
        prepared = host.prepare(catalogue.recipes()["http-server"], "")
        assert isinstance(prepared, PreparedTarget)
        with monkeypatch.context() as patched:
            patched.setattr("jissoku.targets.process.tempfile.mkdtemp", full)
            with pytest.raises(TargetError, match="cannot be started: No space left on device"):
                host.start(prepared, Workload(), seed=1, cores=(), workers=None)
        with host.start(prepared, Workload(), seed=1, cores=(), workers=None) as running:
            assert running.is_alive()


@pytest.mark.race
@pytest.mark.parametrize("cut_s", [2.0, 45.0], ids=["short", "long"])
def test_a_network_that_is_cut_in_a_window_is_no_fault_of_a_server(
    namespaces: tuple[list[str], list[str]], tmp_path: Path, cut_s: float
) -> None:
    """A short cut costs its trial; after a long one both ends give up, each by itself."""
    home, there = namespaces
    keys, listen = tmp_path / "keys", ListenAddress(SERVER, HERE.port)
    make_keys(keys, SERVER)
    with agent_process(listen, keys, there) as agent:
        words = [*home, sys.executable, "-m", "tests.fleet.cut_network"]
        words += [listen.text, str(keys), there[-1], str(cut_s)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=200)
        (pid,) = Path(f"/proc/{agent.pid}/stat").read_text().split()[:1]
        eventually(lambda: not targets_of(int(pid)))
    said = json.loads(done.stdout)
    if cut_s > 30:
        assert f"the agent on {listen.text} has " in said["lost"]
        return
    assert not said["lost"]
    first, second = said["trials"]
    assert first["failure"] or first["checks"]
    assert not (first["failure"] or {}).get("arm"), "no server is blamed"
    assert not second["failure"], "the session goes on"
