"""Whole comparisons whose load comes from two load hosts, between network namespaces.

The namespaces share cores and clocks: what is tested is the accounting, the ends and what is said,
never a speed.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from jissoku import records
from jissoku.fleet.keys import make_keys
from jissoku.inference.blocks import has_waits
from jissoku.model import Trial, TrialKind
from tests.conftest import JISSOKU, LIMIT_S, Done
from tests.fleet.test_two_hosts import PORT, agent_at, eventually, pid_of, targets_of

pytestmark = pytest.mark.race

TARGETS = ("jissoku", "http-server")
NET = "10.78.0"
HOSTS = {"home": 1, "server": 2, "load1": 3, "load2": 4}


def address(name: str) -> str:
    return f"{NET}.{HOSTS[name]}"


@dataclass(frozen=True)
class Network:
    """Namespaces that are joined by a bridge in one of their own; `ends` are their interfaces."""

    names: dict[str, str]
    ends: dict[str, str]

    def within(self, name: str) -> list[str]:
        """The words that start a program there."""
        return ["ip", "netns", "exec", self.names[name]]


def ip(*words: str) -> bool:
    program = shutil.which("ip") or "ip"
    return subprocess.run([program, *words], capture_output=True, check=False).returncode == 0


@pytest.fixture
def network() -> Iterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip (iproute2)")
    mark = os.getpid() % 100_000
    bridge = f"jissoku-{mark}-bridge"
    names = {name: f"jissoku-{mark}-{name}" for name in HOSTS}
    ends = {name: f"jsk{mark}h{number}" for name, number in HOSTS.items()}
    try:
        if not all(ip("netns", "add", name) for name in (bridge, *names.values())):
            pytest.skip("network namespaces are not allowed here")
        if not ip("-n", bridge, "link", "add", "br0", "type", "bridge"):
            pytest.skip("this kernel has no bridge")
        assert ip("-n", bridge, "link", "set", "br0", "up")
        for name, number in HOSTS.items():
            inner, outer = ends[name], f"jsk{mark}b{number}"
            if not ip("link", "add", inner, "type", "veth", "peer", "name", outer):
                pytest.skip("this kernel has no veth")
            assert ip("link", "set", inner, "netns", names[name])
            assert ip("link", "set", outer, "netns", bridge)
            assert ip("-n", bridge, "link", "set", outer, "master", "br0", "up")
            assert ip("-n", names[name], "addr", "add", f"{address(name)}/24", "dev", inner)
            assert ip("-n", names[name], "link", "set", inner, "up")
            assert ip("-n", names[name], "link", "set", "lo", "up")
        yield Network(names, ends)
    finally:
        for name in (*names.values(), bridge):
            ip("netns", "del", name)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("keys") / "fleet"
    make_keys(folder, *map(address, ("server", "load1", "load2")))
    return folder


@contextmanager
def agents(network: Network, keys: Path) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """That of the server's host, and those of both load hosts."""
    with ExitStack() as held:
        found = {}
        for name in ("server", "load1", "load2"):
            options = [] if name == "server" else ["--load-to", address("server")]
            opened = agent_at(address(name), keys, network.within(name), options)
            found[name] = held.enter_context(opened)
        yield found


def words(network: Network, keys: Path, out: Path, asked: Sequence[str]) -> list[str]:
    found = [*network.within("home"), *JISSOKU, "compare", *TARGETS, *asked, "--out", str(out)]
    found += ["--server-host", f"{address('server')}:{PORT}", "--server-keys", str(keys)]
    for name in ("load1", "load2"):
        found += ["--load-host", f"{address(name)}:{PORT}"]
    return found


def compare(network: Network, keys: Path, out: Path, *asked: str) -> Done:
    done = subprocess.run(
        words(network, keys, out, asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def check_trial(trial: Trial) -> None:
    seen = trial.conditions
    assert seen is not None
    assert len(seen.load_hosts) == 2
    assert sum(host.requests for host in seen.load_hosts) == sum(
        one.requests for one in trial.measurements
    )
    for host in seen.load_hosts:
        assert host.path_ns is not None
        assert host.clock_error_ns is not None
        assert host.tcp_segments
        assert host.steal_fraction is not None
        assert host.foreign_fraction is not None
    assert seen.softirq_fraction is not None
    assert seen.edge_error_ns is not None
    assert seen.clock_error_ns is not None
    assert seen.edge_error_ns > seen.clock_error_ns
    for one in trial.measurements:
        assert one.cpu_ns
        assert one.response is not None
    if trial.kind is TrialKind.TIME_SLICED:
        assert has_waits(trial)
        for one in trial.measurements:
            assert sum(one.slice_cpu_ns) > 0.5 * (one.cpu_ns or 0), "they work in their own slices"


def test_two_load_hosts_have_a_verdict_and_a_record_of_both(
    network: Network, keys: Path, tmp_path: Path
) -> None:
    with agents(network, keys) as running:
        done = compare(network, keys, tmp_path / "run", "--rate", "1000", "--for", "40s")
        assert done.returncode in {0, 4}, done.stderr
        eventually(lambda: targets_of(running["server"]) == set())
    run, trials = records.read(tmp_path / "run")
    assert run.load_host is not None
    assert (run.load_host.hosts, run.load_host.path) == (2, "virtual")
    measured = [trial for trial in trials if trial.failure is None and trial.measurements]
    assert TrialKind.TIME_SLICED in {trial.kind for trial in measured}
    for trial in measured:
        check_trial(trial)
    assert NET not in (tmp_path / "run" / "trials.jsonl").read_text(), "a record names no host"
    assert NET not in (tmp_path / "run" / "run.json").read_text()
    assert "2 load hosts" in (tmp_path / "run" / "report.html").read_text()


def test_a_slow_path_is_called_path_bound(network: Network, keys: Path, tmp_path: Path) -> None:
    """A megabit a second leaves a server idle: its rate is the network's."""
    slow = ["tbf", "rate", "1mbit", "burst", "4kb", "latency", "400ms"]
    with agents(network, keys):
        there = [*network.within("server"), "tc", "qdisc", "add", "dev", network.ends["server"]]
        if subprocess.run([*there, "root", *slow], capture_output=True, check=False).returncode:
            pytest.skip("this kernel has no tbf")
        asked = ("--closed-loop", "--for", "40s", "-c", "16", "--path", "/files/1k.bin")
        done = compare(network, keys, tmp_path / "run", *asked)
    assert done.returncode in {0, 4}, done.stderr
    summary = json.loads((tmp_path / "run" / "report.json").read_text())
    bounds = {one["arm"]["name"]: one["bottleneck"] for one in summary["arm_summaries"]}
    assert "path-bound" in bounds.values(), bounds
    shown = " ".join((tmp_path / "run" / "report.txt").read_text().split())
    assert "Path-bound: the network to the load hosts, and not the server, was the limit" in shown
    assert "path-bound: a round trip through the network took" in shown


def test_a_load_host_that_is_lost_ends_the_run_with_what_is_known(
    network: Network, keys: Path, tmp_path: Path
) -> None:
    with agents(network, keys) as running:
        started = words(network, keys, tmp_path / "run", ("--rate", "1000"))
        with subprocess.Popen(
            started, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as client:
            assert client.stdout is not None
            assert any(line.startswith("After 3 blocks") for line in client.stdout)
            os.kill(pid_of(running["load2"]), 9)
            said = client.stdout.read()
            assert client.wait(120) == 1, said
        assert f"the agent on {address('load2')}:{PORT} has " in said
        assert "the load of this trial is dropped" in said
        assert "Report: " in said
        assert (tmp_path / "run" / "report.html").is_file()
        eventually(lambda: targets_of(running["server"]) == set())
        assert running["load1"].poll() is None, "it serves the next client"
