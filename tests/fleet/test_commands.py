"""Commands that a client names: refused unless the agent's operator allows them."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.errors import InputError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.keys import make_keys
from jissoku.model import Origin, Workload
from jissoku.targets.launch import ListensElsewhere
from tests.fleet.conftest import COMMANDS, RunningAgent, running_agent

SERVER = f"{sys.executable} -m http.server"


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.fixture
def allowing(keys_folder: Path) -> Iterator[RunningAgent]:
    with running_agent(keys_folder, permissions=COMMANDS) as found:
        yield found


def test_a_command_is_refused_with_the_option_that_allows_it(agent: RunningAgent) -> None:
    with agent.client() as host:
        with pytest.raises(InputError, match=r"recipes only: with `jissoku agent --allow-commands"):
            host.prepare_command("a=/bin/true {port}")
        start = wire.Start(prepared=0, workload=Workload(), seed=1)
        host.ask(wire.ChooseCores(), wire.ChosenCores)
        with pytest.raises(InputError, match="nothing was prepared as number 0"):
            host.ask(start, wire.Started)


def test_a_command_is_prepared_started_and_stopped(allowing: RunningAgent) -> None:
    with allowing.client() as host:
        prepared = host.prepare_command(f"mine={SERVER} {{port}} --bind 127.0.0.1")
        assert (prepared.name, prepared.origin) == ("mine", Origin.COMMAND)
        assert prepared.version.startswith("sha256 ")
        assert prepared.arm().binary_sha256
        cores = host.assign_cores(None, None)
        launcher = host.launcher(1, cores.server, None)
        with launcher.start(prepared, Workload()) as running:
            first = host.wait_until_ready(running, Workload(), lambda: False, str)
            assert first.is_success
        assert running.stop()


def test_what_is_no_command_is_refused_as_on_this_machine(allowing: RunningAgent) -> None:
    with allowing.client() as host:
        for text, match in {
            "mine=./none-such {port}": "no program './none-such' was found",
            "mine=/bin/true": "say once where it listens",
            "mine=sh -c x > {port}": "is run without a shell",
            "../mine=/bin/true {port}": "is not a name",
        }.items():
            with pytest.raises(InputError, match=match):
                host.ask(wire.PrepareCommand(text=text), wire.PrepareResult)
        with pytest.raises(InputError, match=r"a Unix socket .*; write \{port\}"):
            host.prepare_command("mine=/bin/true {socket}")
        with pytest.raises(InputError, match=r"a Unix socket .*; write \{port\}"):
            host.ask(wire.PrepareCommand(text="mine=/bin/true {socket}"), wire.PrepareResult)
        with pytest.raises(InputError, match="at most 65,536 characters"):
            host.ask(wire.PrepareCommand(text="x" * 1_000_000 + "=y"), wire.PrepareResult)
        assert host.clock().round_trip_ns > 0, "a refusal does not end the session"


def test_no_more_targets_are_prepared_than_are_kept(
    allowing: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.fleet.preparing.PREPARED_MAX", 2)
    with allowing.client() as host:
        for _ in range(2):
            host.prepare_command("a=/bin/true {port}")
        with pytest.raises(InputError, match="2 targets were prepared already"):
            host.prepare_command("a=/bin/true {port}")


def test_a_command_that_ends_says_so(allowing: RunningAgent) -> None:
    with allowing.client() as host:
        prepared = host.prepare_command("mine=/bin/false {port}")
        cores = host.assign_cores(None, None)
        with (
            host.launcher(1, cores.server, None).start(prepared, Workload()) as running,
            pytest.raises(TargetError, match="mine exited with code 1 before it answered"),
        ):
            host.wait_until_ready(running, Workload(), lambda: False, str)


def test_a_command_that_listens_elsewhere_is_refused_with_where_to_listen(
    allowing: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That keeps its kind on the way: the whole run is refused, and not each start of it."""
    monkeypatch.setattr("jissoku.targets.launch.SLOW_START_NS", 0)
    monkeypatch.setattr("jissoku.targets.launch.LOOK_NS", 300_000_000)
    monkeypatch.setattr("jissoku.targets.launch.HOST", "192.0.2.1")
    with allowing.client() as host:
        prepared = host.prepare_command(f"mine={SERVER} {{port}} --bind 127.0.0.2")
        cores = host.assign_cores(None, None)
        with (
            host.launcher(1, cores.server, None).start(prepared, Workload()) as running,
            pytest.raises(
                ListensElsewhere, match=r"127\.0\.0\.2:\d+, and not on .*let it listen on"
            ),
        ):
            host.wait_until_ready(running, Workload(), lambda: False, str)


def test_a_command_runs_with_the_environment_and_folder_of_the_agent(
    allowing: RunningAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\nexec {SERVER} $1 --bind 127.0.0.1\n")
    program.chmod(0o755)
    with allowing.client() as host:
        prepared = host.prepare_command("mine=./server {port}")
        cores = host.assign_cores(None, None)
        with host.launcher(1, cores.server, None).start(prepared, Workload()) as running:
            host.wait_until_ready(running, Workload(), lambda: False, str)


def test_an_agent_listens_on_an_address_of_version_6(tmp_path: Path) -> None:
    if not has_ipv6():
        pytest.skip("there is no IPv6")
    make_keys(tmp_path / "keys", "::1")
    with running_agent(tmp_path / "keys", "::1", permissions=COMMANDS) as agent:
        assert agent.address.text == f"[::1]:{agent.agent.port}"
        with agent.client() as host:
            prepared = host.prepare_command(f"mine={SERVER} {{port}} --bind ::1")
            cores = host.assign_cores(None, None)
            with host.launcher(1, cores.server, None).start(prepared, Workload()) as running:
                assert running.address.url().startswith("http://[::1]:")
                host.wait_until_ready(running, Workload(), lambda: False, str)
