"""A host that is lost while its target is explained or profiled: what was finished is reported."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jissoku import records
from jissoku.cli import explain as verbs
from jissoku.errors import HostLost, JissokuError
from jissoku.fleet.remote import RemoteHost
from jissoku.measure import probes
from jissoku.measure.client import ProbeError
from jissoku.measure.host import ServerHost
from jissoku.model import Workload, updated
from jissoku.request import ExplanationRequest, ProfileRequest
from jissoku.request.kinds import PROBES
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from tests.explain.factories import QUIET, waits
from tests.fleet.conftest import RunningAgent
from tests.fleet.fakes import LOST, FakeHost, without_load
from tests.inference.factories import arm_measurement
from tests.profiles.factories import MAIN, samples

LOST_BEFORE = "the host of the target was lost before"

# The probes in the order in which they are made, by their names in a record; each has a start, the
# last one two.
ORDER = ("wire", "syscalls", "load", "waits", "profile", "memory", "timers")
STARTS = len(ORDER) + 1

SAMPLED = (arm_measurement("jissoku"), samples((1_000, (MAIN,))))


class LostHost(FakeHost):
    """Is lost when its target is started once more than `starts` times, or asked for costs."""

    def __init__(self, starts: int, *, has_costs: bool = True) -> None:
        super().__init__()
        self._starts = starts
        self._has_costs = has_costs

    @property
    def lost(self) -> str:  # type: ignore[override]
        return LOST if len(self.started) > self._starts else ""

    def syscall_costs(self) -> dict[str, float]:
        if not self._has_costs:
            self._starts = 0
        self.require()
        return {"write": 300.0}


def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every probe see what a quiet server shows, without a request."""
    seen = {
        "observe_wire": QUIET.wire,
        "observe_syscalls": QUIET.syscalls,
        "observe_load": QUIET.load,
        "observe_waits": waits().waits,
        "observe_memory": QUIET.memory,
        "observe_timers": QUIET.timers,
    }
    for name, found in seen.items():
        monkeypatch.setattr(probes, name, lambda *_, found=found: found)
    monkeypatch.setattr("jissoku.measure.explain.profile_load", lambda *_: SAMPLED)


def explained(
    monkeypatch: pytest.MonkeyPatch, host: FakeHost, folder: Path, *words: str
) -> tuple[int, dict[str, object], str]:
    """The exit code, the record, and what was said of an explanation on a host."""

    @contextmanager
    def host_of(request: ExplanationRequest, version: str) -> Iterator[ServerHost]:
        assert request.server_host
        assert version
        yield host

    without_load(monkeypatch)
    answered(monkeypatch)
    monkeypatch.setattr(verbs, "host_of", host_of)
    words = ("jissoku", "--server-host", "srv:7470", "--out", str(folder), *words)
    done = CliRunner().invoke(verbs.explain, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    found = json.loads((folder / "explanation.json").read_text())
    return done.return_value, found, done.output


def missing(found: dict[str, object]) -> dict[str, str]:
    observed = found["observations"]
    assert isinstance(observed, dict)
    return {one["probe"]: one["reason"] for one in observed["failures"]}


def test_a_host_that_stays_has_everything_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found, said = explained(monkeypatch, FakeHost(), tmp_path)
    assert (code, found["finished"], found["until"]) == (0, True, ""), said
    assert not missing(found)


@pytest.mark.parametrize("starts", range(STARTS + 1))
def test_what_was_observed_before_a_host_is_lost_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int
) -> None:
    code, found, said = explained(monkeypatch, LostHost(starts), tmp_path)
    assert code == 1
    assert f"jissoku: {LOST}." in said
    assert "found until the host of the target was lost" in said
    assert (found["finished"], found["until"]) == (False, "the host of the target was lost")
    observed = found["observations"]
    assert isinstance(observed, dict)
    made = len(ORDER) if starts == STARTS else min(starts, len(ORDER) - 1)
    assert [name for name in ORDER if observed[name]] == list(ORDER[:made])
    assert observed["floor_cpu_ns"] is None
    reasons = missing(found)
    assert set(reasons.values()) == {LOST_BEFORE}
    assert len(reasons) == len(PROBES) - made + 1, "and what calls cost"
    for name in ("the floor", "what calls cost"):
        assert f"Not observed: {name}; {LOST_BEFORE}." in " ".join(said.split())


def test_what_is_done_on_the_load_host_after_the_last_probe_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floor was measured; only the costs of calls are missing."""
    code, found, _ = explained(monkeypatch, LostHost(100, has_costs=False), tmp_path)
    observed = found["observations"]
    assert isinstance(observed, dict)
    assert code == 1
    assert observed["floor_cpu_ns"] == 7_000.0
    assert missing(found) == {"what calls cost": LOST_BEFORE}


def test_a_host_that_is_lost_before_its_changes_are_known_leaves_the_causes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diff(_: tuple[str, ...]) -> str:
        raise HostLost(LOST)

    monkeypatch.setattr(verbs, "answering", lambda knobs, _: updated(knobs, diff=diff))
    host = FakeHost()
    code, found, _ = explained(monkeypatch, host, tmp_path)
    assert (code, found["changes"]) == (0, "")


def test_a_probe_that_fails_with_its_host_is_not_the_targets_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floor's load has no answer, because its host is gone."""
    host = LostHost(100)

    def gone(*_: object) -> None:
        host._starts = 0
        raise ProbeError("the load generator measured nothing: no answer")

    monkeypatch.setattr("jissoku.measure.explain._Observer._load", gone)
    code, found, _ = explained(monkeypatch, host, tmp_path, "--probe", "floor")
    assert code == 1
    assert missing(found) == {"the floor": LOST_BEFORE}


def profiled(monkeypatch: pytest.MonkeyPatch, host: FakeHost, folder: Path) -> tuple[int, str]:
    """The exit code and the output of a profile of two recipes on a host."""

    @contextmanager
    def host_of(request: ProfileRequest, version: str) -> Iterator[ServerHost]:
        assert request.server_host
        assert version
        yield host

    without_load(monkeypatch)
    monkeypatch.setattr("jissoku.measure.profile.profile_load", lambda *_: SAMPLED)
    monkeypatch.setattr(verbs, "host_of", host_of)
    words = ["nginx", "jissoku", "--server-host", "srv:7470", "--out", str(folder)]
    done = CliRunner().invoke(verbs.profile, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_the_profile_before_a_host_is_lost_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two starts for the rate, and one for each profile."""
    code, said = profiled(monkeypatch, LostHost(3), tmp_path)
    assert code == 1
    assert f"jissoku: {LOST}." in said
    assert "Not profiled: jissoku." in said
    assert [one.target for one in records.read_profiles(tmp_path)] == ["nginx"]
    assert (tmp_path / "profile.html").is_file()


@pytest.mark.parametrize("starts", [0, 1, 2])
def test_a_host_that_is_lost_before_any_profile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int
) -> None:
    with pytest.raises(JissokuError, match=LOST) as failed:
        profiled(monkeypatch, LostHost(starts), tmp_path / "out")
    assert not isinstance(failed.value, click.ClickException)
    assert not (tmp_path / "out").exists()


def test_a_target_whose_host_is_lost_is_stopped_by_its_host(agent: RunningAgent) -> None:
    with agent.client() as host:
        host.assign_cores(None, None)
        prepared = host.prepare(catalogue.recipes()["http-server"], "")
        assert isinstance(prepared, PreparedTarget)
        running = host.start(prepared, Workload(), seed=1, cores=(), workers=None)
        agent.agent.close()
        assert running.stop()
        assert host.lost


def test_a_host_that_is_lost_while_its_target_is_asked_is_no_fault_of_the_target(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, a network that is cut would be taken for a firewall."""

    def cut(*_: object) -> None:
        agent.agent.close()
        raise OSError("no route to host")

    def ready(host: RemoteHost) -> None:
        host.assign_cores(None, None)
        prepared = host.prepare(catalogue.recipes()["http-server"], "")
        assert isinstance(prepared, PreparedTarget)
        running = host.start(prepared, Workload(), seed=1, cores=(), workers=None)
        host.wait_until_ready(running, Workload(), lambda: False, str)

    monkeypatch.setattr("jissoku.fleet.remote.send_request", cut)
    with agent.client() as host, pytest.raises(HostLost):
        ready(host)
