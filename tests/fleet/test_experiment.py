"""Experiments whose targets are on another host: what is left out, refused, and counted there."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku import records
from jissoku.cli.measuring import run
from jissoku.design.variants import arms
from jissoku.errors import HostLost, InputError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.installed import experiments, is_installed_benchmark, is_installed_change
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.client import Client, ProbeError, RequestTarget
from jissoku.measure.host import ServerHost, verified
from jissoku.measure.microbenchmark import SYSCALL_BENCHMARK
from jissoku.model import CoreAssignment, CounterReadings, Transport, Workload
from jissoku.model.experiment import ConfigChange, Microbenchmark
from jissoku.request import ExperimentRequest
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from tests.fleet.conftest import COMMANDS, RunningAgent, running_agent
from tests.fleet.fakes import LOST, FakeHost, without_load

CORES = CoreAssignment(server=(0,), generator=(0,), shared=True)

TARGETS = """title = "Tiny"
description = "Two servers, and workloads that two hosts cannot have."

[[target]]
name = "ours"
recipe = "jissoku"

[[target]]
name = "python"
recipe = "http-server"
"""

HELLO = """
[[workload]]
name = "hello"
connections = 4
"""

SOCKETS = """
[[workload]]
name = "sockets"
unix = true

[[workload]]
name = "crowded"
shared_cores = true
"""

CLAIMS = """
[[claim]]
name = "rate"
text = "Ours is not a hundred times as fast."
test = ["rate(ours@{work}) < 100 * rate(python@{work})"]

[[claim]]
name = "calls"
text = "Ours has few calls."
test = ["calls(ours@{work}) < 9"]
"""

TWO_COUNTS = """
[[claim]]
name = "calls of the other"
text = "The other has few calls, too."
test = ["calls(python@hello) < 99"]
"""

TWO_BENCHMARKS = """
[[benchmark]]
name = "micro"
command = ["{python}", "-c", "print('one_ns 1.0')"]
rounds = 6

[[benchmark]]
name = "nano"
command = ["{python}", "-c", "print('one_ns 2.0')"]
rounds = 6

[[claim]]
name = "both"
text = "Both programs are alike."
test = ["benchmark.one_ns(micro) < 9 * benchmark.one_ns(nano)"]
"""

UNTESTABLE = """
[[claim]]
name = "here"
text = "Both are alike over Unix sockets."
test = ["rate(ours@sockets) < 2 * rate(python@sockets)"]

[[claim]]
name = "crowded"
text = "Both are alike on the cores of the load."
test = ["rate(ours@crowded) < 2 * rate(python@crowded)"]
"""


def ran(
    monkeypatch: pytest.MonkeyPatch, host: FakeHost, folder: Path, text: str
) -> tuple[int, str]:
    """The exit code and the output of an experiment on a host."""

    @contextmanager
    def host_of(request: ExperimentRequest, version: str) -> Iterator[ServerHost]:
        assert request.server_host
        assert version
        yield host

    without_load(monkeypatch)
    monkeypatch.setattr("jissoku.cli.measuring.host_of", host_of)
    file = folder / "tiny.toml"
    file.write_text(text)
    words = [str(file), "--server-host", "srv:7470", "--out", str(folder / "out")]
    done = CliRunner().invoke(run, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


NETWORKS = """
[[workload]]
name = "far"
connections = 4
network = "delay 5ms"

[[claim]]
name = "far"
text = "Both are alike over a network."
test = ["rate(ours@far) < 100 * rate(python@far)"]
"""


class Network:
    """Notes what it is asked to be."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def use(self, properties: str) -> None:
        if properties == "delay often":
            raise InputError("network 'delay often': write a duration")
        self.used.append(properties)

    def forwarded(self) -> dict[str, str]:
        return {"schema": f"of {self.used[-1]!r}"}


def test_each_workload_has_its_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    host.network = network = Network()
    text = TARGETS + HELLO + NETWORKS + CLAIMS.format(work="hello")
    code, said = ran(monkeypatch, host, tmp_path, text)
    assert code == 0, said
    # All are read before anything is measured, and then each has its turn.
    assert network.used == ["", "delay 5ms"] * 2
    for name, properties in (("hello", ""), ("far", "delay 5ms")):
        counted = json.loads((tmp_path / "out" / name / "network.json").read_text())
        assert counted == {"schema": f"of {properties!r}"}


def test_a_network_that_cannot_be_read_is_refused_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    host.network = Network()
    text = TARGETS + HELLO + NETWORKS.replace("5ms", "often") + CLAIMS.format(work="hello")
    with pytest.raises(InputError, match="network 'delay often': write a duration"):
        ran(monkeypatch, host, tmp_path, text)
    assert not (tmp_path / "out").exists()


def test_the_network_to_another_host_is_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TARGETS + HELLO + NETWORKS + CLAIMS.format(work="hello")
    code, said = ran(monkeypatch, FakeHost(), tmp_path, text)
    assert code == 0, said
    assert "Workload far is skipped: the network to another host is not emulated" in said


def test_claims_are_tested_with_targets_on_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TARGETS + HELLO + SOCKETS + CLAIMS.format(work="hello") + UNTESTABLE
    code, said = ran(monkeypatch, FakeHost(), tmp_path, text)
    assert code == 0, said
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    statuses = {one["claim"]["name"]: one["status"] for one in found["claims"]}
    untestable = "not testable here"
    assert statuses == {
        "rate": "holds",
        "calls": "holds",
        "here": untestable,
        "crowded": untestable,
    }
    assert "Workload sockets is skipped: a Unix socket cannot be reached from" in said
    assert "Workload crowded is skipped: the load cannot share the cores" in said
    assert found["header"]["machine"]["cpu_model"] == "the processor there"
    header, _ = records.read(tmp_path / "out" / "hello")
    assert header.load_host is not None
    assert header.machine.cpu_model == "the processor there"
    assert getattr(header.request, "server_host", "") == "HOST"


def test_an_experiment_of_what_one_host_has_only_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    text = TARGETS + SOCKETS + CLAIMS.format(work="sockets")
    with pytest.raises(InputError, match="no workload of tiny can be measured with --server-host"):
        ran(monkeypatch, host, tmp_path, text)
    assert not host.prepared, "nothing was built before"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lost_at", [0, 5])
def test_a_lost_host_ends_an_experiment_with_the_report_of_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: int
) -> None:
    text = TARGETS + HELLO + CLAIMS.format(work="hello")
    code, said = ran(monkeypatch, FakeHost(lost_at), tmp_path, text)
    assert code == 1
    assert f"{LOST}." in said
    assert "Report: " in said
    _, trials = records.read(tmp_path / "out" / "hello")
    assert len(trials) <= lost_at
    assert json.loads((tmp_path / "out" / "report.json").read_text())["is_finished"] is False


def test_without_a_name_no_other_host_is_listed() -> None:
    done = CliRunner().invoke(run, ["--server-host", "srv:7470"], standalone_mode=False)
    assert isinstance(done.exception, InputError)
    assert "--server-host needs an EXPERIMENT" in str(done.exception)


def test_changes_of_installed_experiments_are_known_and_no_others() -> None:
    changed = [
        spec for one in experiments() for spec in arms(one.target, one.factor) if spec.change
    ]
    assert len(changed) > 20
    for spec in changed:
        assert is_installed_change(spec.recipe, spec.change)
        assert not is_installed_change("http-server", spec.change)
        assert not is_installed_change(spec.recipe, (*spec.change, ConfigChange(add=("--x",))))
    benchmarks = [benchmark for one in experiments() for benchmark in one.benchmark]
    assert benchmarks
    for benchmark in benchmarks:
        assert is_installed_benchmark(benchmark)
        other = Microbenchmark(name=benchmark.name, command=("/bin/sh",), recipe=benchmark.recipe)
        assert not is_installed_benchmark(other)


def prepared(host: RemoteHost, name: str = "http-server") -> PreparedTarget:
    found = host.prepare(catalogue.recipes()[name], "")
    assert isinstance(found, PreparedTarget)
    return found


def test_an_agent_refuses_changes_and_benchmarks_that_are_not_installed(
    agent: RunningAgent,
) -> None:
    change = (ConfigChange(environment={"LD_PRELOAD": "/x.so"}),)
    micro = Microbenchmark(name="mine", command=("/bin/sh", "-c", "id"))
    with agent.client() as host:
        base = prepared(host)
        assert host.with_changes(base, (), Transport.TCP) is base
        with pytest.raises(InputError, match=r"changes http-server only as .*--allow-commands"):
            host.with_changes(base, change, Transport.TCP)
        with pytest.raises(InputError, match=r"runs the benchmark mine only .*--allow-commands"):
            host.prepare_benchmark(micro, None)
        with pytest.raises(InputError, match="nothing was prepared as number 9"):
            host.ask(wire.PrepareChanged(prepared=9), wire.PrepareResult)
        for number in (-1, 0):
            with pytest.raises(InputError, match="no benchmark was prepared as number"):
                host.ask(wire.RunBenchmark(number=number), wire.Figures)
        with pytest.raises(InputError, match="no cores are chosen"):
            host.prepare_benchmark(SYSCALL_BENCHMARK, None)((0,))
        assert host.clock().round_trip_ns > 0, "a refusal does not end the session"


def test_an_installed_change_is_made_once(agent: RunningAgent) -> None:
    spec = next(
        spec
        for one in experiments()
        for spec in arms(one.target, one.factor)
        if spec.recipe == "jissoku" and any(change.add for change in spec.change)
    )
    with agent.client() as host:
        base = prepared(host, "jissoku")
        changed = host.with_changes(base, spec.change, spec.upstream)
        assert base.start is not None
        assert changed.start is not None
        added = [word for change in spec.change for word in change.add]
        assert changed.start.command == (*base.start.command, *added)
        assert (
            changed.arm("other").config_sha256
            == base.with_changes(spec.change).arm("other").config_sha256
        )
        with pytest.raises(InputError, match="jissoku is changed already"):
            host.with_changes(changed, spec.change, spec.upstream)


def test_an_operator_may_allow_any_change_and_benchmark(keys_folder: Path) -> None:
    prints = Microbenchmark(name="mine", command=("{python}", "-c", "print('one_ns 12.5')"))
    fails = Microbenchmark(name="bad", command=("{python}", "-c", "raise SystemExit(3)"))
    foreign = Microbenchmark(name="other", command=("x",), recipe="parsers")
    with running_agent(keys_folder, permissions=COMMANDS) as agent, agent.client() as host:
        base = prepared(host)
        change = (ConfigChange(environment={"MINE": "1"}),)
        changed = host.with_changes(base, change, Transport.TCP)
        assert changed.start is not None
        assert changed.start.environment["MINE"] == "1"
        cores = host.assign_cores(None, None)
        assert host.prepare_benchmark(prints, None)(cores.server) == {"one_ns": 12.5}
        calls = host.prepare_benchmark(SYSCALL_BENCHMARK, None)(cores.server)
        assert calls["syscall_ns"] >= 1
        with pytest.raises(TargetError, match="bad: exited with code 3"):
            host.prepare_benchmark(fails, None)(cores.server)
        with pytest.raises(InputError, match="is one of another recipe"):
            host.prepare_benchmark(foreign, base)


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_system_calls_are_counted_there(agent: RunningAgent) -> None:
    with agent.client() as host:
        cores = host.assign_cores(None, None)
        launcher = host.launcher("seed", cores.server, None)
        with verified(host, launcher, prepared(host), Workload(), lambda: False) as running:
            inspector = host.inspector(running, CORES)
            with (
                inspector.counted() as counts,
                Client(RequestTarget.of(running.address, Workload())) as client,
            ):
                for _ in range(20):
                    client.request_again()
            assert sum(counts.calls.values()) >= 20
            with pytest.raises(InputError, match="nothing of this kind was begun"):
                host.ask(wire.EndCounts(), wire.Counted)


def test_without_strace_counting_says_what_the_host_needs(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent.client() as host:
        cores = host.assign_cores(None, None)
        launcher = host.launcher(1, cores.server, None)
        base = prepared(host)
        monkeypatch.setattr("jissoku.system.strace.shutil.which", lambda _: None)
        with (
            verified(host, launcher, base, Workload(), lambda: False) as running,
            pytest.raises(ProbeError, match="on the agent's host: strace is not installed"),
            host.inspector(running, CORES).counted(),
        ):
            pytest.fail("it has no strace")


def test_counts_and_benchmarks_before_a_host_is_lost_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second benchmark, and then the second count, is asked of a host that is gone."""
    host = FakeHost()
    text = TARGETS + HELLO + CLAIMS.format(work="hello") + TWO_COUNTS + TWO_BENCHMARKS
    counted: list[str] = []

    def count_arm(prepared: PreparedTarget, *_: object, **__: object) -> CounterReadings:
        counted.append(prepared.name)
        if len(counted) > 1:
            raise HostLost(LOST)
        return CounterReadings(requests=400, per_request={"read": 1.0})

    known = {"micro": lambda _: {"one_ns": 1.0}, "nano": lambda _: {"one_ns": 2.0}}
    with monkeypatch.context() as patched:
        patched.setattr("jissoku.measure.counting.count_arm", count_arm)
        patched.setattr(host, "prepare_benchmark", lambda one, _: known[one.name], raising=False)
        code, said = ran(patched, host, tmp_path, text)
    assert (code, f"{LOST}." in said) == (1, True)
    counters = json.loads((tmp_path / "out" / "hello" / "counters.json").read_text())
    assert list(counters) == ["ours"]
    figures = json.loads((tmp_path / "out" / "benchmarks.json").read_text())
    assert set(figures) == {"micro", "nano"}

    def lost(*_: object) -> dict[str, float]:
        raise HostLost(LOST)

    some = known | {"nano": lost}
    monkeypatch.setattr(host, "prepare_benchmark", lambda one, _: some[one.name], raising=False)
    (tmp_path / "again").mkdir()
    code, said = ran(monkeypatch, host, tmp_path / "again", text)
    assert (code, f"{LOST}." in said) == (1, True)
    figures = json.loads((tmp_path / "again" / "out" / "benchmarks.json").read_text())
    assert list(figures) == ["micro"]
