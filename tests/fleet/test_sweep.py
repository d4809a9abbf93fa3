"""Sweeps whose targets are on another host: on which cores they run, and how they end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku import records
from jissoku.cli.measuring import sweep
from jissoku.errors import InputError
from jissoku.fleet import wire
from jissoku.measure.host import ServerHost
from jissoku.request import SweepRequest
from tests.fleet.conftest import RunningAgent
from tests.fleet.fakes import CORES, LOST, FakeHost, without_load

LEVELS = ("--levels", "1-6", "--blocks", "3")


def swept(
    monkeypatch: pytest.MonkeyPatch, host: FakeHost, folder: Path, *words: str
) -> tuple[int, str]:
    """The exit code and the output of a sweep of two recipes on a host."""

    @contextmanager
    def host_of(request: SweepRequest, version: str) -> Iterator[ServerHost]:
        assert request.server_host
        assert version
        yield host

    without_load(monkeypatch)
    monkeypatch.setattr("jissoku.cli.measuring.host_of", host_of)
    words = ("nginx", "jissoku", *words, "--server-host", "srv:7470", "--out", str(folder))
    done = CliRunner().invoke(sweep, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_workers_have_as_many_cores_of_the_other_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    code, said = swept(monkeypatch, host, tmp_path / "run", "--over", "workers", *LEVELS)
    assert code == 0, said
    assert host.prepared == ["nginx", "jissoku"]
    by_workers = {workers: cores for _, cores, workers in host.started}
    assert by_workers == {count: CORES[:count] for count in range(1, 7)}
    assert sorted(set(host.observed_cores), key=len) == [CORES[:count] for count in range(1, 5)]
    run, trials = records.read(tmp_path / "run")
    assert run.machine.cpu_model == "the processor there"
    assert run.load_host is not None
    assert run.request is not None
    assert getattr(run.request, "server_host", "") == "HOST"
    assert len(trials) == 2 * 3 * 6
    assert "Load from" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("lost_at", [0, 1, 9])
def test_a_lost_host_ends_a_sweep_with_the_report_of_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: int
) -> None:
    host = FakeHost(lost_at)
    code, said = swept(monkeypatch, host, tmp_path / "run", *LEVELS)
    assert code == 1
    assert f"{LOST}." in said
    assert "Report: " in said
    _, trials = records.read(tmp_path / "run")
    assert len(trials) == lost_at
    assert (tmp_path / "run" / "report.txt").is_file()


def test_a_host_that_is_lost_before_the_rates_are_known_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = swept(monkeypatch, FakeHost(1), tmp_path / "run", "--over", "rate")
    assert (code, "Report: " in said) == (1, True)


def test_what_is_asked_wrongly_is_refused_before_the_agent_is_asked() -> None:
    """No agent listens at this address: to connect would be another error."""
    there = ["http-server", "--server-host", "127.0.0.1:1"]
    for words, match in {
        ("--over", "rate", "--at", "9"): "--at needs a fitted model",
        ("--levels", "1-3"): "name at least 6",
        ("--unix",): "--server-host and --unix exclude each other",
    }.items():
        done = CliRunner().invoke(sweep, [*there, *words], standalone_mode=False)
        assert isinstance(done.exception, InputError)
        assert match in str(done.exception)


def test_only_cores_of_the_targets_are_waited_for_and_observed(agent: RunningAgent) -> None:
    with agent.client() as host:
        cores = host.assign_cores(None, None)
        host.wait_for_idle_cores(cores.server[:1], lambda: False)
        for asked in (wire.AwaitIdleCores(cores=(9999,)), wire.Observe(targets=(), cores=(9999,))):
            with pytest.raises(InputError, match="the cores of targets are "):
                host.ask(asked, wire.Answer)
