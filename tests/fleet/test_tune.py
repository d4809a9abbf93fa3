"""Tunings whose target is on another host: its knobs, its counters, and how they end."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku import records
from jissoku.cli.explain import tune
from jissoku.errors import InputError
from jissoku.fleet import wire
from jissoku.fleet.config_wire import PrepareConfigured
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.host import LocalHost, ServerHost, required
from jissoku.measure.knob_changes import target_of_recipe
from jissoku.model import ConfigFile, Origin, Workload
from jissoku.request import TuningRequest
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.response import send_request
from tests.fleet.conftest import COMMANDS, RunningAgent, running_agent
from tests.fleet.fakes import CORES, LOST, FakeHost, without_load

RECIPE = catalogue.recipes()["nginx"]

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


def tuned(
    monkeypatch: pytest.MonkeyPatch, host: FakeHost, folder: Path, knobs: str, target: str = "nginx"
) -> tuple[int, str]:
    """The exit code and the output of a tuning of a recipe on a host."""

    @contextmanager
    def host_of(request: TuningRequest, version: str) -> Iterator[ServerHost]:
        assert request.server_host
        assert version
        yield host

    without_load(monkeypatch)
    monkeypatch.setattr("jissoku.cli.explain.host_of", host_of)
    words = [target, "--knobs", knobs, "--server-host", "srv:7470", "--out", str(folder)]
    done = CliRunner().invoke(tune, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_knobs_are_counted_and_timed_with_a_target_on_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    knobs = "open_file_cache,keepalive_requests"
    code, said = tuned(monkeypatch, host, tmp_path / "out", knobs)
    assert code in {0, 4}, said
    assert {cores for _, cores, _ in host.started} == {CORES}
    found = json.loads((tmp_path / "out" / "tuning.json").read_text())
    results = {one["knob"]["name"]: one for one in found["results"]}
    assert (results["open_file_cache"]["before"], results["open_file_cache"]["after"]) == (1.0, 0.0)
    assert results["keepalive_requests"]["decision"] == "its counter did not move"
    assert found["request"]["server_host"] == "HOST"
    run, trials = records.read(tmp_path / "out" / "alone")
    assert run.load_host is not None
    assert run.machine.cpu_model == "the processor there"
    assert trials


def test_knobs_at_full_load_have_the_cores_of_the_other_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    code, said = tuned(monkeypatch, host, tmp_path / "out", "one_worker", "jissoku")
    assert code in {0, 4}, said
    assert "At full load: one_worker." in said
    run, _ = records.read(tmp_path / "out" / "full-load")
    assert run.cores.server == CORES
    assert not run.cores.shared


@pytest.mark.parametrize("lost_at", [0, 3, 6])
def test_a_lost_host_ends_a_tuning_with_the_report_of_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: int
) -> None:
    code, said = tuned(monkeypatch, FakeHost(lost_at), tmp_path / "out", "open_file_cache")
    assert code == 1
    assert f"{LOST}." in said
    found = json.loads((tmp_path / "out" / "tuning.json").read_text())
    assert found["finished"] is False
    assert [one["knob"]["name"] for one in found["results"]] == ["open_file_cache"]
    assert (tmp_path / "out" / "tuning.txt").read_text()


def prepared(host: RemoteHost, name: str) -> PreparedTarget:
    found = host.prepare(catalogue.recipes()[name], "")
    assert isinstance(found, PreparedTarget)
    return found


@needs_nginx
def test_knobs_are_switched_there_as_they_would_be_here(agent: RunningAgent) -> None:
    with agent.client() as host:
        base = prepared(host, "nginx")
        there = host.tuning_target(base, RECIPE, RECIPE.knob)
        here = target_of_recipe(RECIPE, RECIPE.knob, base, len(host.production_cores().server))
        assert [knob.name for knob in there.knobs] == [knob.name for knob in here.knobs]
        assert there.skipped == here.skipped
        names = ("open_file_cache", "keepalive_requests")
        switched = there.prepared(names)
        assert switched is there.prepared(names), "it is prepared once"
        assert there.prepared(()) is base
        assert switched.arm().config_sha256 == here.prepared(names).arm().config_sha256
        assert there.diff(names) == here.diff(names)
        assert "+" in there.diff(names)
        with pytest.raises(InputError, match="nginx is changed already"):
            host.tuning_target(switched, RECIPE, RECIPE.knob)


@needs_nginx
def test_knobs_that_were_not_asked_for_are_refused(agent: RunningAgent) -> None:
    with agent.client() as host:
        base = prepared(host, "nginx")
        cache = tuple(knob for knob in RECIPE.knob if knob.name == "open_file_cache")
        with pytest.raises(InputError, match="no cores are chosen"):
            host.ask(wire.AskKnobs(prepared=0, names=("open_file_cache",)), wire.Knobs)
        with pytest.raises(InputError, match="target 0 has the knobs none"):
            host.ask(wire.PrepareSwitched(prepared=0, knobs=()), wire.PrepareResult)
        host.tuning_target(base, RECIPE, cache)
        for names in (("sendfile",), ("open_file_cache", "../x"), ("none-such",)):
            with pytest.raises(InputError, match="target 0 has the knobs open_file_cache"):
                host.ask(wire.PrepareSwitched(prepared=0, knobs=names), wire.PrepareResult)
        with pytest.raises(InputError, match="has no knobs to try"):
            host.ask(wire.AskKnobs(prepared=0, names=("none-such",)), wire.Knobs)
        with pytest.raises(InputError, match="nothing was prepared as number 7"):
            host.ask(wire.AskKnobs(prepared=7), wire.Knobs)


def test_a_command_has_the_knobs_of_the_server_that_it_starts_there(keys_folder: Path) -> None:
    recipes = catalogue.recipes()
    with running_agent(keys_folder, permissions=COMMANDS) as agent, agent.client() as host:
        plain = host.prepare_command(f"plain={sys.executable} -m http.server {{port}}")
        assert host.tuning_target_of_command(plain, recipes) is None
        base = host.prepare_command(f"mine={sys.executable} -m gunicorn app:app -b :{{port}}")
        found = host.tuning_target_of_command(base, recipes)
        assert found is not None
        assert {"workers", "keep_alive"} <= {knob.name for knob in found.knobs}
        assert "+" in found.diff(("keep_alive",))


NGINX = """events {{}}
include {folder}/more/*.conf;
http {{
    sendfile off;
    server {{ listen 8080; root {folder}/www; }}
}}
"""
HAPROXY = """defaults
    mode http
    timeout client 10s
    timeout connect 10s
    timeout server 10s
frontend all
    bind :8080
    http-request return status 200 content-type text/plain string "of the user"
"""


def configuration(folder: Path, name: str) -> Path:
    """A configuration of the user, with what it includes and serves."""
    (folder / "www").mkdir()
    (folder / "www" / "index.html").write_text("of the user")
    (folder / "more").mkdir()
    (folder / "more" / "workers.conf").write_text("worker_rlimit_nofile 1024;\n")
    path = folder / f"{name}.conf"
    path.write_text(NGINX.format(folder=folder) if name == "nginx" else HAPROXY)
    return path


@pytest.mark.parametrize(("name", "knob"), [("nginx", "sendfile"), ("haproxy", "")])
def test_a_configuration_of_the_user_runs_there_as_it_would_here(
    keys_folder: Path, tmp_path: Path, name: str, knob: str
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    recipe = catalogue.recipes()[name]
    path = configuration(tmp_path, name)
    knobs = (knob or recipe.knob[0].name,)
    here = LocalHost()
    local = here.tuning_target_of_file(required(here, recipe), recipe, recipe.knob, path, "")
    with running_agent(keys_folder, permissions=COMMANDS) as agent, agent.client() as host:
        base = prepared(host, name)
        there = host.tuning_target_of_file(base, recipe, recipe.knob, path, "")
        assert there.diff(knobs) == local.diff(knobs)
        assert set(there.skipped) == set(local.skipped)
        assert there.sandbox[0].startswith(local.sandbox[0].replace("127.0.0.1", "its host"))
        plain, switched = there.prepared(()), there.prepared(knobs)
        assert plain is there.prepared(()), "it is prepared once"
        for one, own in ((plain, local.prepared(())), (switched, local.prepared(knobs))):
            assert one.arm().config_sha256 == own.arm().config_sha256
            assert (one.name, one.origin) == (name, Origin.COMMAND)
        assert plain.start is not None
        assert plain.start.command == local.prepared(()).start.command  # type: ignore[union-attr]
        with host.start(switched, Workload(), seed=1, cores=(), workers=None) as running:
            host.wait_until_ready(running, Workload(), lambda: False, str)
            assert send_request(running.address, Workload()).body == b"of the user"
        with pytest.raises(InputError, match=f"{name} is changed already"):
            host.tuning_target_of_file(switched, recipe, recipe.knob, path, "").prepared(())
        outside = PrepareConfigured(
            prepared=0,
            name=name,
            command=("true",),
            config=(ConfigFile(name="../x", text=""),),
            is_tls=False,
            upstreams=(),
            folder="",
        )
        with pytest.raises(InputError, match=r"'\.\./x' is no path below the folder of a start"):
            host.ask(outside, wire.PrepareResult)


@needs_nginx
def test_a_configuration_is_commands(agent: RunningAgent, tmp_path: Path) -> None:
    path = configuration(tmp_path, "nginx")
    with agent.client() as host:
        tuning = host.tuning_target_of_file(prepared(host, "nginx"), RECIPE, RECIPE.knob, path, "")
        refusal = "it runs nginx as its recipe configures it: with `jissoku agent --allow-commands`"
        with pytest.raises(InputError, match=refusal):
            tuning.prepared(())
