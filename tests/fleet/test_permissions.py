"""Recipes that are sent, servers that run already, and commits: what of it an operator allows."""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku import records
from jissoku.cli.agent import agent as agent_verb
from jissoku.cli.measuring import bisect
from jissoku.errors import HostLost, InputError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.permissions import Permissions, resolved
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.client import Client, RequestTarget
from jissoku.measure.host import LocalHost, ServerHost, build_paths
from jissoku.measure.loadgen import LoadSpec, TrialTiming
from jissoku.model import ConfigFile, CoreAssignment, Origin, Recipe, Transport, Workload, updated
from jissoku.request import BisectionRequest
from jissoku.targets import catalogue
from jissoku.targets.command import from_command
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from tests.fleet.conftest import COMMANDS, RunningAgent, running_agent
from tests.fleet.fakes import LOST, FakeHost, without_load

SERVER = f"{sys.executable} -m http.server"

CORES = CoreAssignment(server=(0,), generator=(0,), shared=True)

OWN = updated(catalogue.recipes()["http-server"], name="mine")


def started(host: RemoteHost, prepared: PreparedTarget) -> RunningTarget:
    host.assign_cores(None, None)
    running = host.start(prepared, Workload(), seed=1, cores=(), workers=None)
    host.wait_until_ready(running, Workload(), lambda: False, str)
    return running


def ask_often(running: RunningTarget) -> None:
    with Client(RequestTarget.of(running.address, Workload())) as client:
        for _ in range(50):
            client.request_again()


def is_served(host: RemoteHost) -> bool:
    return host.clock().round_trip_ns > 0


def test_a_recipe_that_is_sent_is_refused_with_both_options(agent: RunningAgent) -> None:
    with agent.client() as host:
        with pytest.raises(
            InputError,
            match=r"has no recipe mine, which `jissoku agent --recipes FOLDER` .*--allow-commands",
        ):
            host.prepare(OWN, "")
        with pytest.raises(InputError, match="no such target: 'mine'"):
            host.ask(wire.Prepare(recipe="mine"), wire.PrepareResult)
        assert is_served(host), "a refusal does not end the session"


def test_a_recipe_that_both_hosts_have_needs_no_permission(keys_folder: Path) -> None:
    there = Permissions(recipes=catalogue.recipes() | {"mine": OWN})
    with running_agent(keys_folder, permissions=there) as agent, agent.client() as host:
        prepared = host.prepare(OWN, "")
        assert isinstance(prepared, PreparedTarget)
        assert prepared.origin is Origin.RECIPE
        with started(host, prepared) as running:
            assert running.is_alive()
        # One word more, and it is another one.
        changed = updated(OWN, start=updated(OWN.start, command=(*OWN.start.command, "--x")))
        with pytest.raises(InputError, match="has another recipe mine: give yours another name"):
            host.prepare(changed, "")


def test_a_recipe_of_the_installation_cannot_be_replaced(keys_folder: Path) -> None:
    changed = updated(OWN, name="http-server", program="sh")
    with (
        running_agent(keys_folder, permissions=COMMANDS) as agent,
        agent.client() as host,
        pytest.raises(InputError, match="has another recipe http-server"),
    ):
        host.prepare(changed, "")


def test_a_recipe_is_sent_if_commands_are_allowed(keys_folder: Path) -> None:
    with running_agent(keys_folder, permissions=COMMANDS) as agent, agent.client() as host:
        prepared = host.prepare(OWN, "")
        assert isinstance(prepared, PreparedTarget)
        assert prepared.arm().target == "mine"
        with started(host, prepared) as running:
            assert running.is_alive()
        with pytest.raises(InputError, match="has another recipe mine"):
            host.prepare(updated(OWN, description="Another one."), "")
    with agent_again(keys_folder) as again, pytest.raises(InputError, match="no such target"):
        again.ask(wire.Prepare(recipe="mine"), wire.PrepareResult)


@contextmanager
def agent_again(keys: Path) -> Iterator[RemoteHost]:
    """A later session: what the first one has sent is not known to it."""
    with running_agent(keys, permissions=COMMANDS) as agent:
        with agent.client() as first:
            first.prepare(OWN, "")
        with agent.client() as second:
            yield second


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", ""])
def test_a_recipe_that_is_sent_names_no_file_outside_of_its_folder(
    keys_folder: Path, name: str
) -> None:
    bad = updated(OWN, config=(ConfigFile(name=name, text="x"),))
    with (
        running_agent(keys_folder, permissions=COMMANDS) as agent,
        agent.client() as host,
        pytest.raises(InputError, match=r"mine: config\.0\.name must be a path below \{run\}"),
    ):
        host.prepare(bad, "")


@pytest.mark.parametrize("name", ["../mine", "mine/x", "", "Mine", "a" * 9 + "/.."])
def test_the_name_of_a_recipe_that_is_sent_is_no_path(keys_folder: Path, name: str) -> None:
    """It is a folder of builds there."""
    with (
        running_agent(keys_folder, permissions=COMMANDS) as agent,
        agent.client() as host,
        pytest.raises(InputError, match="must be small letters, digits and hyphens"),
    ):
        host.prepare(updated(OWN, name=name), "")


def test_knobs_of_a_recipe_that_is_sent_are_switched_there(keys_folder: Path) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    sent = updated(catalogue.recipes()["nginx"], name="nginx-mine")
    with running_agent(keys_folder, permissions=COMMANDS) as agent, agent.client() as host:
        base = host.prepare(sent, "")
        assert isinstance(base, PreparedTarget)
        tuning = host.tuning_target(base, sent, sent.knob)
        assert {knob.name for knob in tuning.knobs} <= {knob.name for knob in sent.knob}
        assert tuning.diff((tuning.knobs[0].name,))


def test_a_gateway_forwards_to_a_unix_socket_of_its_own_host(agent: RunningAgent) -> None:
    with agent.client() as host:
        gateway = catalogue.recipes()["jissoku-gateway"]
        plain = host.prepare(gateway, "")
        if not isinstance(plain, PreparedTarget):
            pytest.skip(plain.sentence)
        behind = host.with_changes(plain, (), Transport.UNIX)
        assert "listens on unix" in behind.description
        with started(host, behind) as running:
            assert running.is_alive()


@contextmanager
def running_server(host: str = "127.0.0.1") -> Iterator[RunningTarget]:
    """A server that no agent has started."""
    command = f"theirs={SERVER} {{port}} --bind {host} --protocol HTTP/1.1"
    prepared = from_command(command, build_paths())
    launcher = Launcher(cores=(0,), rng=random.Random(os.getpid()))
    with launcher.ready(prepared, Workload()) as running:
        yield running


def test_a_server_that_runs_is_refused_with_the_option_that_names_it(
    agent: RunningAgent,
) -> None:
    with running_server() as theirs, agent.client() as host:
        url = theirs.address.url()
        with pytest.raises(InputError, match=rf"names it: `jissoku agent --allow-url {url}`"):
            host.prepare_url(f"theirs={url}")
        assert is_served(host)


def test_a_server_that_runs_is_observed_and_not_ended(keys_folder: Path) -> None:
    with running_server() as theirs:
        url = theirs.address.url()
        there = Permissions(urls=(resolved(url),))
        with running_agent(keys_folder, permissions=there) as agent, agent.client() as host:
            prepared = host.prepare_url(f"theirs={url}")
            assert (prepared.origin, prepared.address) == (Origin.URL, theirs.address)
            assert host.has_processes(prepared)
            running = started(host, prepared)
            assert running.address == theirs.address
            inspector = host.inspector(running, CORES)
            (process, *_) = inspector.processes()
            assert "http.server" in process.arguments
            assert inspector.rss_bytes() > 1_000_000
            timing = TrialTiming(0, 100_000_000)
            spec = LoadSpec.of({"theirs": running}, Workload(), timing, 1)
            _, observer = host.observed(spec, CORES)
            observer.start()
            time.sleep(0.1)
            began_ns = time.monotonic_ns()  # Both hosts have the same clock.
            ask_often(running)
            at_ns = (began_ns, time.monotonic_ns())
            time.sleep(0.1)
            counted = host.ask(wire.EndObservation(at_ns=at_ns), wire.Counters)
            ((before, after),) = counted.cpu_ns
            assert after > before > 0, "of the process that listens"
            with pytest.raises(InputError, match="nothing of it can be changed"):
                host.ask(wire.AskKnobs(prepared=0), wire.Knobs)
            assert running.stop()
            other = f"other=http://127.0.0.1:{theirs.address.port + 1}/"
            with pytest.raises(InputError, match="--allow-url"):
                host.prepare_url(other)
        assert theirs.is_alive()


def test_a_server_that_does_not_run_is_named(keys_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    there = Permissions(urls=(resolved(url),))
    with (
        running_agent(keys_folder, permissions=there) as agent,
        agent.client() as host,
        pytest.raises(TargetError, match=f"listens at {url}: start the server first"),
    ):
        host.prepare_url(f"theirs={url}")


def test_a_name_and_its_address_are_the_same_server() -> None:
    assert resolved("http://localhost:80/") == resolved("http://127.0.0.1/")
    assert resolved("https://127.0.0.1:80/") != resolved("http://127.0.0.1:80/")
    for text, match in {
        "unix:/run/x.sock": "a Unix socket cannot be reached from another host",
        "http://no-such-host.invalid/": "no-such-host.invalid is unknown there",
        "file:///etc/passwd": "write http",
    }.items():
        with pytest.raises(InputError, match=match):
            resolved(text)


def test_what_an_operator_allows_is_checked_before_a_client_is_served(tmp_path: Path) -> None:
    words = ["--listen", "127.0.0.1:7471", "--keys", str(tmp_path)]
    for more, match in {
        ("--recipes", str(tmp_path / "none")): "recipes cannot be read",
        ("--allow-url", "ftp://127.0.0.1/"): "write http",
    }.items():
        done = CliRunner().invoke(agent_verb, [*words, *more], standalone_mode=False)
        assert isinstance(done.exception, InputError)
        assert match in str(done.exception)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four commits of a program, of which the third and later ones are slower by their word."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git("init", "-q")
    for number in range(4):
        (folder / "server").write_text(
            f"#!/bin/sh\n# {number}\nexec {SERVER} $1 --bind 127.0.0.1\n"
        )
        (folder / "server").chmod(0o755)
        git("add", "server")
        git("commit", "-q", "-m", f"Change number {number}")
    return folder


def git(*words: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(
        ["/usr/bin/env", "git", *named, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_commits_are_refused_unless_commands_are_allowed(
    agent: RunningAgent, repository: Path
) -> None:
    assert repository.is_dir()
    with agent.client() as host:
        for asked in (
            wire.AskCommits(good="HEAD~3", bad="HEAD"),
            wire.BeginCheckout(commit="0" * 40, build="true"),
        ):
            with pytest.raises(InputError, match=r"builds and starts no commits: .*--allow-comm"):
                host.ask(asked, wire.Commits)
        with pytest.raises(InputError, match="no commit was built as number 1"):
            host.ask(wire.PrepareCheckout(number=1, text="a=b {port}"), wire.PrepareResult)


def test_commits_are_built_started_and_removed_there(keys_folder: Path, repository: Path) -> None:
    with running_agent(keys_folder, permissions=COMMANDS) as agent, agent.client() as host:
        there = host.repository()
        good, commits = there.commits("HEAD~3", "HEAD")
        assert (good, commits) == LocalHost().repository().commits("HEAD~3", "HEAD")
        assert [there.subject(one) for one in (good, *commits)] == [
            f"Change number {number}" for number in range(4)
        ]
        with there.built(commits[0], "cp server built") as build:
            (tree,) = worktrees(repository)
            assert (tree / "built").is_file()
            prepared = build.prepare("candidate=./built {port}")
            with started(host, prepared) as running:
                assert running.is_alive()
        assert not worktrees(repository)
        with (
            pytest.raises(TargetError, match="the build 'false' exited with 1"),
            there.built(commits[0], "false"),
        ):
            pytest.fail("it was not built")
        for text in ("HEAD", "--all", "../x", f"{commits[0]}^{{/x}}"):
            with pytest.raises(InputError, match="is no name of a commit"), there.built(text, ""):
                pytest.fail("it is none")
        with pytest.raises(InputError, match="git rev-parse"):
            there.commits("--all", "HEAD")
        assert is_served(host)
        with there.built(commits[1], ""):
            assert len(worktrees(repository)) == 1
            agent.agent.close()
    assert not worktrees(repository), "they end with the session"


def worktrees(repository: Path) -> list[Path]:
    """The folders of worktrees beside the repository itself."""
    lines = git("worktree", "list", "--porcelain").splitlines()
    found = [Path(line.partition(" ")[2]) for line in lines if line.startswith("worktree ")]
    return [one for one in found if one.resolve() != repository.resolve()]


def bisected(
    monkeypatch: pytest.MonkeyPatch, host: FakeHost, folder: Path, *words: str
) -> tuple[int, str]:
    @contextmanager
    def host_of(request: BisectionRequest, version: str) -> Iterator[ServerHost]:
        assert request.server_host
        assert version
        yield host

    without_load(monkeypatch)
    monkeypatch.setattr("jissoku.cli.measuring.host_of", host_of)
    there = ["--server-host", "srv:7470", "--out", str(folder)]
    asked = ["HEAD~3", "HEAD", "--cmd", "./server {port}", *there, *words]
    done = CliRunner().invoke(bisect, asked, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


@pytest.mark.usefixtures("repository")
def test_a_bisection_has_its_commits_on_the_other_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = bisected(monkeypatch, FakeHost(), tmp_path / "out", "--for", "60s")
    assert code == 4, said
    (folder, *_) = sorted((tmp_path / "out").iterdir())
    run, _ = records.read(folder)
    assert run.load_host is not None
    assert run.machine.cpu_model == "the processor there"
    assert getattr(run.request, "server_host", "") == "HOST"


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("lost_at", [0, 4])
def test_a_bisection_that_loses_the_host_says_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: int
) -> None:
    code, said = bisected(monkeypatch, FakeHost(lost_at), tmp_path / "out")
    assert code == 1
    assert "Ended early. Known to be good: " in said
    assert "Change number 0. Known to be bad: none yet." in said
    assert f"jissoku: {LOST}." in said


def test_a_request_that_is_interrupted_ends_the_session(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer would be taken for that of the next one."""
    with agent.client() as host:

        def interrupted(*_: object) -> bytes:
            raise KeyboardInterrupt

        monkeypatch.setattr(host._channel, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            host.clock()
        with pytest.raises(HostLost, match="was given up"):
            host.clock()


def test_a_recipe_of_the_installation_is_named_and_not_sent(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Recipe | None] = []
    with agent.client() as host:

        def ask(request: wire.Prepare, *_: object) -> wire.PrepareResult:
            asked.append(request.sent)
            raise HostLost(LOST)

        monkeypatch.setattr(host, "ask", ask)
        for recipe in (catalogue.recipes()["nginx"], OWN):
            with pytest.raises(HostLost):
                host.prepare(recipe, "")
    assert asked == [None, OWN]
