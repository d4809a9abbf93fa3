"""Whole comparisons with an agent: on loopback, and between two network namespaces.

The namespaces share cores and caches: what is tested is the accounting and the ends, never a speed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from jissoku import records
from jissoku.fleet.keys import make_keys
from jissoku.inference.blocks import calm_rotations, has_waits
from jissoku.model import Run, Trial, TrialKind
from tests.conftest import JISSOKU, LIMIT_S, Done
from tests.experiments.test_race import FILE as TINY
from tests.fleet.conftest import SERVER

pytestmark = pytest.mark.race

PORT = 17_470
TARGETS = ("jissoku", "http-server")

# An agent and its client.
Both = tuple["subprocess.Popen[str]", "subprocess.Popen[str]"]

# One load, and what the time allows.
SHORT = ("--rate", "1000", "--for", "40s")


@contextmanager
def agent_at(
    host: str, keys: Path, before: Sequence[str] = (), options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """An agent that listens; `before` are the words that start it in another namespace."""
    words = [*before, *JISSOKU, "agent", "--listen", f"{host}:{PORT}", "--keys", str(keys)]
    words += options
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("Listening on ")
            yield process
        finally:
            if process.poll() is None:
                os.kill(pid_of(process), signal.SIGTERM)
            process.wait(60)


def compare(
    host: str,
    keys: Path,
    out: Path,
    before: Sequence[str] = (),
    targets: Sequence[str] = TARGETS,
) -> Done:
    words = [*before, *JISSOKU, "compare", *targets, *SHORT, "--out", str(out)]
    words += ["--server-host", f"{host}:{PORT}", "--server-keys", str(keys)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    return Done(done.returncode, done.stdout, done.stderr)


def pid_of(agent: subprocess.Popen[str]) -> int:
    """The agent's own process: unshare waits for a child."""
    assert isinstance(agent.args, list)
    if "--fork" not in agent.args:
        return agent.pid
    return int(Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()[0])


def targets_of(agent: subprocess.Popen[str]) -> set[int]:
    """The processes of targets that an agent has started."""
    mark = f"JISSOKU_TARGET={pid_of(agent)}-".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def eventually(is_true: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def check_record(run: Run, trials: Sequence[Trial], host: str) -> None:
    """That each trial has what it would have with targets on this machine, and the bounds."""
    measured = [trial for trial in trials if trial.failure is None and trial.measurements]
    assert TrialKind.TIME_SLICED in {trial.kind for trial in measured}
    for trial in measured:
        seen = trial.conditions
        assert seen is not None
        assert seen.clock_error_ns is not None
        assert 0 < seen.clock_error_ns < 20_000_000
        assert seen.edge_error_ns is not None
        assert seen.edge_error_ns >= seen.clock_error_ns
        assert seen.round_trip_ns is not None
        assert seen.target_wait_fraction is not None
        assert seen.generator_wait_fraction is not None
        for one in trial.measurements:
            assert one.cpu_ns is not None
            assert one.rss_bytes_peak
            assert 0 < one.cpu_ns < one.duration_ns * len(run.cores.server) * 1.2
            assert one.response is not None
    sliced = [trial for trial in measured if trial.kind is TrialKind.TIME_SLICED]
    assert sliced
    for trial in sliced:
        assert has_waits(trial), "the waiting in each slice is known"
        assert calm_rotations(trial)
        for one in trial.measurements:
            assert sum(one.slice_cpu_ns) > 0.6 * (one.cpu_ns or 0), "they work in their own slices"
            assert one.idle_cpu_ns_per_s is not None
    text = msgspec.json.encode(run).decode()
    assert host not in text, "a record names no host"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("keys") / "fleet"
    make_keys(folder, "127.0.0.1")
    return folder


def test_a_comparison_over_loopback_has_what_a_local_one_has(keys: Path, tmp_path: Path) -> None:
    with agent_at("127.0.0.1", keys) as agent:
        done = compare("127.0.0.1", keys, tmp_path / "run")
        assert done.returncode in {0, 4}, done.stderr
        assert targets_of(agent) == set()
        assert agent.poll() is None, "it serves the next client"
    assert agent.returncode == 0
    run, trials = records.read(tmp_path / "run")
    assert run.load_host is not None
    assert run.load_host.path == "loopback"
    check_record(run, trials, f"127.0.0.1:{PORT}")
    assert "Load from" in (tmp_path / "run" / "report.html").read_text()
    summary = json.loads((tmp_path / "run" / "report.json").read_text())
    arms = {one["arm"]["name"] for one in summary["arm_summaries"]}
    assert arms == {"jissoku", "http-server", "floor"}


def test_two_commands_are_compared_over_ipv6(tmp_path: Path) -> None:
    """Each of its own program, so that both are alike, and neither is a recipe."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    make_keys(tmp_path / "keys", "::1")
    server = f"{sys.executable} -m http.server {{port}} --protocol HTTP/1.1 --bind ::1"
    commands = [f"--cmd={name}={server}" for name in ("one", "two")]
    with agent_at("[::1]", tmp_path / "keys", options=["--allow-commands"]) as agent:
        done = compare("[::1]", tmp_path / "keys", tmp_path / "run", targets=commands)
        assert done.returncode in {0, 4}, done.stderr
        assert targets_of(agent) == set()
    run, trials = records.read(tmp_path / "run")
    assert {arm.origin for arm in run.arms if arm.name in {"one", "two"}} == {"command"}
    assert run.load_host is not None
    assert run.load_host.path == "loopback"
    assert any(one.cpu_ns for trial in trials for one in trial.measurements)
    assert str(tmp_path) not in msgspec.json.encode(run).decode()


def run_there(host: str, keys: Path, *words: str, before: Sequence[str] = ()) -> Done:
    """A command whose target is on the agent's host."""
    there = ["--server-host", f"{host}:{PORT}", "--server-keys", str(keys)]
    done = subprocess.run(
        [*before, *JISSOKU, *words, *there],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def check_explanation(done: Done) -> None:
    """That all probes have seen what they would have seen of a target on this machine."""
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    seen = found["observations"]
    missing = {one["probe"]: one["reason"] for one in seen["failures"]}
    # A machine may be too busy for one load, or not allow strace or the sampler.
    assert not missing.keys() - {"system calls", "functions", "the cost of its timers"}, missing
    assert seen["wire"]["answer_size"] > 0
    assert seen["load"]["cpu_ns"] > 0
    assert seen["load"]["threads"]
    words = [word for one in seen["load"]["processes"] for word in one["arguments"]]
    assert any("jissoku" in word for word in words), words
    assert seen["waits"]["looks"] > 10
    assert seen["memory"]["rss_bytes_before"] > 0
    if "the cost of its timers" not in missing:
        assert seen["timers"]["control_ns_idle"] > 0, "the control copy was measured, too"
    assert seen["floor_cpu_ns"] > 0
    if shutil.which("strace"):
        assert seen["syscalls"]["requests"] > 0, missing
    if "functions" not in missing:
        assert seen["profile"]["samples"]["samples"] > 10
    assert found["request"]["server_host"] == "HOST"


def test_a_target_is_explained_over_loopback(keys: Path, tmp_path: Path) -> None:
    with agent_at("127.0.0.1", keys) as agent:
        words = ("explain", "jissoku", "--json", "--out", str(tmp_path / "explained"))
        check_explanation(run_there("127.0.0.1", keys, *words))
        assert targets_of(agent) == set()


def test_two_targets_are_profiled_over_loopback(keys: Path, tmp_path: Path) -> None:
    with agent_at("127.0.0.1", keys) as agent:
        words = ("profile", *TARGETS, "-d", "1s", "-F", "997", "--out", str(tmp_path / "profiled"))
        done = run_there("127.0.0.1", keys, *words)
        assert targets_of(agent) == set()
    if "perf_event_paranoid" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    found = records.read_profiles(tmp_path / "profiled")
    assert [one.target for one in found] == list(TARGETS)
    for one in found:
        assert one.cpu_ns > 0
        assert one.samples.samples > 10
        assert any("client of an agent, over a loopback" in note for note in one.samples.notes)
        assert one.request is not None
        assert one.request.server_host == "HOST"


def test_a_sweep_over_loopback_observes_its_targets(keys: Path, tmp_path: Path) -> None:
    words = ("sweep", "jissoku", "--over", "workers", "--levels", "1-6", "--blocks", "3")
    with agent_at("127.0.0.1", keys) as agent:
        done = run_there("127.0.0.1", keys, *words, "--out", str(tmp_path / "swept"))
        assert targets_of(agent) == set()
    assert done.returncode in {0, 4}, done.stderr
    run, trials = records.read(tmp_path / "swept")
    assert run.load_host is not None
    assert run.load_host.path == "loopback"
    assert {trial.level for trial in trials} == set(range(1, 7))
    measured = [trial for trial in trials if trial.failure is None]
    assert measured
    for trial in measured:
        (one,) = trial.measurements
        assert one.cpu_ns
        assert trial.conditions is not None
        assert trial.conditions.edge_error_ns
    assert "Load from" in (tmp_path / "swept" / "report.html").read_text()


def test_an_experiment_over_loopback_counts_calls_there(keys: Path, tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    with agent_at("127.0.0.1", keys) as agent:
        done = run_there("127.0.0.1", keys, "run", str(file), "--out", str(tmp_path / "out"))
        assert targets_of(agent) == set()
    assert done.returncode in {0, 4}, done.stderr
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [claim["claim"]["name"] for claim in found["claims"]] == ["a", "b", "calls", "c"]
    assert found["is_finished"]
    counted = json.loads((tmp_path / "out" / "hello" / "counters.json").read_text())["ours"]
    if shutil.which("strace"):
        assert not counted["syscalls_reason"]
    figures = json.loads((tmp_path / "out" / "benchmarks.json").read_text())
    assert len(figures["here"]["rounds"]) == 9
    run, trials = records.read(tmp_path / "out" / "hello")
    assert run.load_host is not None
    assert any(one.cpu_ns for trial in trials for one in trial.measurements)


def test_a_tuning_over_loopback_counts_and_compares_there(keys: Path, tmp_path: Path) -> None:
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    words = ["tune", "nginx", "--path", "/files/1k.bin", "--knobs", "open_file_cache"]
    words += ["-c", "4", "-R", "400", "--json", "--out", str(tmp_path / "tuned")]
    with agent_at("127.0.0.1", keys) as agent:
        done = run_there("127.0.0.1", keys, *words)
        assert targets_of(agent) == set()
    assert done.returncode in {0, 4}, done.stderr
    found = json.loads(done.stdout)
    (result,) = found["results"]
    if shutil.which("strace"):
        assert (result["before"] >= 0.9, result["after"] <= 0.1) == (True, True)
    assert found["proven"] is (found["diff"] != "")
    assert found["request"]["server_host"] == "HOST"
    run, trials = records.read(tmp_path / "tuned" / "alone")
    assert run.load_host is not None
    assert any(one.cpu_ns for trial in trials for one in trial.measurements)


@pytest.fixture
def both(keys: Path, tmp_path: Path) -> Iterator[Both]:
    """An agent and its client, with targets running."""
    with agent_at("127.0.0.1", keys) as agent:
        words = [*JISSOKU, "compare", *TARGETS, "--rate", "1000", "--out", str(tmp_path / "run")]
        words += ["--server-host", f"127.0.0.1:{PORT}", "--server-keys", str(keys)]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as client:
            assert client.stdout is not None
            assert any(line.startswith("After 3 blocks") for line in client.stdout)
            eventually(lambda: bool(targets_of(agent)))
            yield agent, client
            client.kill()


def test_an_agent_that_loses_its_client_ends_the_targets(
    both: Both,
) -> None:
    agent, client = both
    client.kill()
    eventually(lambda: targets_of(agent) == set())
    assert agent.poll() is None


def test_a_client_that_loses_its_agent_reports_what_was_measured(
    both: Both, tmp_path: Path
) -> None:
    agent, client = both
    agent.kill()
    assert client.stdout is not None
    said = client.stdout.read()
    assert client.wait(60) == 1, said
    assert f"the agent on 127.0.0.1:{PORT} has " in said
    assert "Report: " in said
    assert (tmp_path / "run" / "report.html").is_file()
    eventually(lambda: targets_of(agent) == set())


def test_ctrl_c_ends_targets_and_keeps_what_was_finished(both: Both, tmp_path: Path) -> None:
    agent, client = both
    client.send_signal(signal.SIGINT)
    assert client.stdout is not None
    client.stdout.read()
    assert client.wait(60) == 130
    eventually(lambda: targets_of(agent) == set())
    assert agent.poll() is None
    assert "Its verdicts hold" in (tmp_path / "run" / "report.txt").read_text()


def an_hour_ahead() -> list[str]:
    """The words that shift the monotonic clock of a program by an hour, where that is allowed."""
    words = ["unshare", "--time", "--monotonic", "3600", "--fork"]
    if not shutil.which("unshare"):
        return []
    done = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if done.returncode == 0 else []


def test_a_comparison_between_two_namespaces_with_clocks_an_hour_apart(
    namespaces: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    home, there = namespaces
    folder = tmp_path / "keys"
    words = [*there, sys.executable, "-m", "jissoku", "agent", "--make-keys"]
    words += ["--listen", f"{SERVER}:{PORT}", "--keys", str(folder)]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    with agent_at(SERVER, folder, [*there, *an_hour_ahead()]) as agent:
        done = compare(SERVER, folder, tmp_path / "run", home)
        assert done.returncode in {0, 4}, done.stderr
        eventually(lambda: targets_of(agent) == set())
        run, trials = records.read(tmp_path / "run")
        done = run_there(
            SERVER,
            folder,
            "explain",
            "jissoku",
            "--json",
            "--out",
            str(tmp_path / "e"),
            before=home,
        )
        check_explanation(done)
    assert run.load_host is not None
    assert run.load_host.path == "virtual"
    check_record(run, trials, SERVER)
