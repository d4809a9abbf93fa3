"""Comparisons that agents run by themselves: once each, whatever the network and processes do."""

import errno
import fcntl
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from jissoku.errors import InputError
from jissoku.fleet.campaign_folder import COPIED_FILE, LEASE_FILE
from jissoku.fleet.campaign_wire import AskCampaign, BeginCampaign, CampaignId, CampaignState
from jissoku.fleet.campaigns import check_campaign
from jissoku.fleet.connecting import session
from jissoku.fleet.keys import CLIENT, read_keys
from jissoku.fleet.machines import Control, MachinesPlan, Pull, measure_machines, resumed_plan
from jissoku.fleet.permissions import Permissions, resolved
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.machines import read_machines
from jissoku.model.machines import MachinesVerdict
from jissoku.records import machines as store
from jissoku.request import ComparisonRequest
from jissoku.system import measurement_lock
from jissoku.targets import catalogue
from tests.fleet.campaigns import (
    ARMS,
    PERMISSIONS,
    Bench,
    begun,
    measured,
    plan_of,
    recorded,
    running,
    trials,
)
from tests.fleet.conftest import VERSION, RunningAgent

KEY = CampaignId(run="0123456789abcdef", machine=1)
BEGIN = BeginCampaign(id=KEY, request=ComparisonRequest(arms=ARMS), limit_s=60.0)


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of this test's own: a measurement of this machine is none of its benches."""
    file = tmp_path / "lock"
    monkeypatch.setenv(measurement_lock.PATH_VARIABLE, str(file))
    return file


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return recorded(tmp_path / "source")


@pytest.fixture
def bench(keys_folder: Path, tmp_path: Path, source: Path) -> Bench:
    return Bench(keys_folder, tmp_path / "bench", source)


@pytest.fixture
def steps(tmp_path: Path, bench: Bench) -> Path:
    """A file whose size is the number of lines that a campaign may write."""
    bench.steps = tmp_path / "steps"
    bench.steps.touch()
    return bench.steps


def eventually(is_true: Callable[[], bool], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def allow(steps: Path, lines: int) -> None:
    steps.write_bytes(b"." * lines)


def allowed(steps: Path) -> int:
    return steps.stat().st_size


def has_lines(copy: Path, count: int) -> bool:
    return (copy / "trials.jsonl").exists() and trials(copy).count(b"\n") == count


def process_of(bench: Bench) -> int:
    running_now = bench.campaigns._running
    assert running_now is not None
    return running_now.process.pid


@contextmanager
def in_background(call: Callable[[], object]) -> Iterator[None]:
    """Calls it beside the block, and raises what it has raised, also where the block fails."""
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(call)
        try:
            yield
        finally:
            called.result(60)


def test_several_machines_have_one_verdict_and_the_records_of_each(
    keys_folder: Path, tmp_path: Path
) -> None:
    benches = [
        Bench(keys_folder, tmp_path / f"bench{seed}", recorded(tmp_path / f"{seed}", seed=seed))
        for seed in (1, 2, 3)
    ]
    with running(benches):
        plan = plan_of(benches, tmp_path / "run")
        measured(plan)
    for number, bench in enumerate(benches, 1):
        copy = tmp_path / "run" / f"machine-{number}"
        assert trials(copy) == trials(bench.source)
        assert (copy / "run.json").read_bytes() == (bench.source / "run.json").read_bytes()
        assert not (copy / "unfinished.txt").exists()
    summary = read_machines(tmp_path / "run")
    assert len(summary.machines) == 3
    assert not summary.out
    first = summary.comparisons[0]
    assert first.verdict is MachinesVerdict.HIGHER_ON_ALL
    assert first.ratio is not None
    assert first.ratio.value == pytest.approx(1.35, rel=0.02)


def test_each_machine_has_a_seed_of_its_own_and_the_records_name_no_host(
    bench: Bench, tmp_path: Path
) -> None:
    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
    first, second = plan.request_of(1), plan.request_of(2)
    assert first.seed != second.seed
    assert msgspec.structs.replace(first, seed=second.seed) == second
    texts = [path for path in (tmp_path / "run").iterdir() if path.name != store.RESUME_FILE]
    assert all(b"127.0.0.1" not in path.read_bytes() for path in texts)
    assert (tmp_path / "run" / store.RESUME_FILE).stat().st_mode & 0o077 == 0


def test_a_campaign_is_begun_once(bench: Bench, steps: Path) -> None:
    with running([bench]), bench.client() as link:
        link.begin(BEGIN)
        with pytest.raises(InputError, match="it is running, asked twice"):
            link.begin(BEGIN)
        allow(steps, 1000)
        while link.part(AskCampaign(id=KEY, wait=True)).state is CampaignState.RUNNING:
            pass
        link.begin(BEGIN)  # Of one that has ended there is what it has measured.
        part = link.part(AskCampaign(id=KEY))
        assert (part.state, part.code) == (CampaignState.ENDED, 0)
        assert part.lines == trials(bench.source)
    assert begun(bench) == 1


def test_one_campaign_runs_at_a_time(bench: Bench, steps: Path) -> None:
    other = BeginCampaign(
        id=CampaignId(run="f" * 16, machine=1), request=BEGIN.request, limit_s=60.0
    )
    with running([bench]), bench.client() as link:
        link.begin(BEGIN)
        assert link.begin(other).busy == (
            "another comparison, of a and b, runs on this machine: try again when it has ended"
        )
        allow(steps, 1000)
        while link.part(AskCampaign(id=KEY, wait=True)).state is CampaignState.RUNNING:
            pass
        assert link.begin(other).state is CampaignState.RUNNING


def test_a_record_is_removed_once_it_is_copied_and_old(bench: Bench, tmp_path: Path) -> None:
    """What no client has said to have copied stays, though it has all been sent."""
    other = BeginCampaign(
        id=CampaignId(run="f" * 16, machine=1), request=BEGIN.request, limit_s=60.0
    )
    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        measured(plan)
        copied = bench.folder / plan.key(1, 1).folder()
        assert (copied / COPIED_FILE).exists()
        with bench.client() as link:
            link.begin(BEGIN)
            eventually(lambda: link.part(AskCampaign(id=KEY)).state is CampaignState.ENDED)
            link.part(AskCampaign(id=KEY, offset=0, has_all=True))
            bench.campaigns._keep_days = 0
            link.begin(other)
        assert not copied.exists()
        assert (bench.folder / KEY.folder() / "record" / "trials.jsonl").exists()
        assert f"campaign {plan.key(1, 1).folder()} is removed: its client has copied it" in (
            bench.notes
        )
        # Its client knows that it has all, and asks for nothing.
        measured(resumed_plan(tmp_path / "run", VERSION), is_resumed=True)
    assert trials(tmp_path / "run" / "machine-1") == trials(bench.source)


def test_two_clients_at_once_have_one_comparison_after_the_other(
    bench: Bench, steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is connected all the time, and the second one learns what runs there."""
    monkeypatch.setattr("jissoku.fleet.machines.BUSY_PAUSE_S", 0.05)
    busy = "another comparison, of a and b, runs on this machine"
    allow(steps, 2)
    with running([bench]), ThreadPoolExecutor(2) as clients:
        plans = [plan_of([bench], tmp_path / name) for name in ("first", "second")]
        progress = Control(), Control()
        done = [clients.submit(Pull(plans[0], 1, progress[0]).run)]
        eventually(lambda: has_lines(tmp_path / "first" / "machine-1", 2))
        with pytest.raises(InputError, match=f"{busy}: try again when it has ended"):
            plan_of([bench], tmp_path / "third")
        done.append(clients.submit(Pull(plans[1], 1, progress[1]).run))
        assert progress[1].events.get(timeout=30) == f"second: machine 1: {busy}; trying again."
        allow(steps, 1000)
        for one in done:
            one.result(60)
    for name in ("first", "second"):
        assert trials(tmp_path / name / "machine-1") == trials(bench.source)
    noted = [note.split()[2] for note in bench.notes if note.startswith("campaign ")]
    assert noted == ["begins,", "has", "begins,", "has"], "nothing overlaps"
    assert not (tmp_path / "third").exists()


def test_a_client_that_comes_while_load_is_sent_is_answered_after_it(
    bench: Bench, lock: Path
) -> None:
    """Its handshake would take milliseconds of the machine that measures."""
    with (
        running([bench]),
        measurement_lock.measurement_lock("compare", lock),
        measurement_lock.load_window(700_000_000),
    ):
        ends_ns = time.monotonic_ns() + round(1e9 * measurement_lock.load_seconds_left())
        with bench.client() as link:
            assert time.monotonic_ns() >= ends_ns
            assert link.part(AskCampaign(id=KEY)).busy == (
                f"{measurement_lock.BUSY}: try again when it has ended"
            )


def test_an_agent_in_use_is_waited_for_however_long_that_takes(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other client measures between hosts: connections are closed before anything is said."""
    for name, value in (("PATIENCE_S", 0.0), ("BUSY_PAUSE_S", 0.05)):
        monkeypatch.setattr(f"jissoku.fleet.machines.{name}", value)
    monkeypatch.setattr("jissoku.fleet.connecting.RETRIES_S", ())
    with running([bench]), ThreadPoolExecutor(1) as clients:
        plan = plan_of([bench], tmp_path / "run")
        progress = Control()
        with session(bench.address, read_keys(bench.keys, CLIENT), VERSION, RemoteHost):
            done = clients.submit(Pull(plan, 1, progress).run)
            assert "another client may be using it" in str(progress.events.get(timeout=30))
        done.result(60)
    assert trials(tmp_path / "run" / "machine-1") == trials(bench.source)


def test_nothing_is_begun_beside_another_measurement(
    bench: Bench, tmp_path: Path, lock: Path
) -> None:
    with (
        running([bench]),
        measurement_lock.measurement_lock("compare", lock),
        pytest.raises(InputError, match="another measurement runs on this machine"),
    ):
        plan_of([bench], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_machine_that_measures_something_else_is_waited_for(
    bench: Bench, tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.fleet.machines.BUSY_PAUSE_S", 0.05)
    notes: list[str] = []
    with running([bench]), ExitStack() as held:
        plan = plan_of([bench], tmp_path / "run")
        held.enter_context(measurement_lock.measurement_lock("compare", lock))

        def note(text: str) -> None:
            notes.append(text)
            assert not begun(bench) or "finished" in text or "begins" in text
            held.close()

        assert measure_machines([plan], note) == (True, "")
    assert notes[0].endswith("another measurement runs on this machine; trying again.")
    assert trials(tmp_path / "run" / "machine-1") == trials(bench.source)


def test_a_comparison_that_another_one_has_forestalled_is_asked_for_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one had the lock of the machine when its process wanted it."""
    monkeypatch.setattr("jissoku.fleet.machines.BUSY_PAUSE_S", 0.05)
    refuse = f"import sys; sys.exit('jissoku: {measurement_lock.BUSY}: process 1')"
    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        command = bench.campaigns._command
        bench.campaigns._command = (sys.executable, "-c", refuse)

        def note(text: str) -> None:
            if text.endswith(f"{measurement_lock.BUSY}."):
                bench.campaigns._command = command

        assert measure_machines([plan], note) == (True, "")
    assert begun(bench) == 2
    assert trials(tmp_path / "run" / "machine-1-attempt-2") == trials(bench.source)
    assert store.read_outcomes(tmp_path / "run")[1].reason == ""


def test_what_has_come_is_taken_and_nothing_is_begun_or_ended(
    bench: Bench, steps: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    copy = run / "machine-1"
    notes: list[str] = []

    def take(plan: MachinesPlan) -> list[str]:
        notes.clear()
        assert measure_machines([plan], notes.append, takes_only=True) == (True, "")
        return notes

    with running([bench]):
        plan = plan_of([bench], run)
        assert take(plan) == []
        assert not copy.exists()
        copy.mkdir()  # As a client that was killed when it had asked for the first part.
        assert take(plan) == ["run: machine 1: it was not begun."]
        with bench.client() as link:
            begin = BeginCampaign(id=plan.key(1, 1), request=plan.request_of(1), limit_s=60.0)
            link.begin(begin)
        for lines in (3, 7):
            allow(steps, lines)
            eventually(lambda: lines_of(bench) == allowed(steps))
            assert take(plan) == ["run: machine 1: it goes on."]
            assert trials(copy).count(b"\n") == lines
        assert store.read_outcomes(run) == {}
    assert "its agent cannot be reached: Connection refused; start it" in take(plan)[0]
    assert store.read_outcomes(run) == {}


def lines_of(bench: Bench) -> int:
    return sum(
        path.read_bytes().count(b"\n") for path in bench.folder.glob("*/*/record/trials.jsonl")
    )


def test_a_comparison_that_has_ended_is_taken_as_a_whole(
    bench: Bench, steps: Path, tmp_path: Path
) -> None:
    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        (tmp_path / "run" / "machine-1").mkdir()
        allow(steps, 1000)
        with bench.client() as link:
            key = plan.key(1, 1)
            link.begin(BeginCampaign(id=key, request=plan.request_of(1), limit_s=60.0))
            while link.part(AskCampaign(id=key, wait=True)).state is CampaignState.RUNNING:
                pass
        for _ in range(2):
            assert measure_machines([plan], print, takes_only=True) == (True, "")
        assert trials(tmp_path / "run" / "machine-1") == trials(bench.source)
        assert store.read_outcomes(tmp_path / "run")[1].reason == ""
    assert begun(bench) == 1


@pytest.mark.slow
def test_a_connection_that_is_cut_costs_nothing(bench: Bench, steps: Path, tmp_path: Path) -> None:
    total = trials(bench.source).count(b"\n")
    copy = tmp_path / "run" / "machine-1"

    def cut_often() -> None:
        for lines in range(1, total + 1):
            allow(steps, lines)
            if lines % 10 == 0:
                # The copy begins when the first message has come.
                eventually(lambda: has_lines(copy, allowed(steps)))
                bench.cut()

    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        with in_background(cut_often):
            notes = measured(plan)
    assert trials(copy) == trials(bench.source)
    assert any("trying again" in note for note in notes)
    assert begun(bench) == 1


def test_it_goes_on_without_its_client_and_is_pulled_later(
    bench: Bench, steps: Path, tmp_path: Path
) -> None:
    """As after a client that was killed: nothing here is left of it but its folder."""
    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        with bench.client() as link:
            link.begin(BeginCampaign(id=plan.key(1, 1), request=plan.request_of(1), limit_s=60.0))
        (tmp_path / "run" / "machine-1").mkdir()
        allow(steps, 1000)
        again = resumed_plan(tmp_path / "run", VERSION)
        measured(again, is_resumed=True)
    assert trials(tmp_path / "run" / "machine-1") == trials(bench.source)
    assert begun(bench) == 1


def test_what_was_cut_off_is_another_attempt_when_it_is_resumed(
    bench: Bench, steps: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run" / "machine-1"
    allow(steps, 2)

    def kill() -> None:
        eventually(lambda: has_lines(copy, 2))
        os.kill(process_of(bench), signal.SIGKILL)

    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        with in_background(kill):
            measured(plan)
        outcome = store.read_outcomes(tmp_path / "run")[1]
        assert outcome.attempt == 1
        assert outcome.reason == "its process was killed, or its host restarted"
        allow(steps, 1000)
        for _ in range(2):  # Once more: nothing is left to do.
            measured(resumed_plan(tmp_path / "run", VERSION), is_resumed=True)
            assert store.read_outcomes(tmp_path / "run")[1].reason == ""
    assert begun(bench) == 2
    assert trials(tmp_path / "run" / "machine-1-attempt-2") == trials(bench.source)
    (machine,) = read_machines(tmp_path / "run").machines
    assert machine.unfinished == ""


def test_ctrl_c_ends_it_after_its_trial_and_keeps_what_it_has(
    bench: Bench, steps: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run" / "machine-1"
    allow(steps, 3)

    def interrupt() -> None:
        eventually(lambda: has_lines(copy, 3))
        os.kill(os.getpid(), signal.SIGINT)

    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        with in_background(interrupt):
            assert measure_machines([plan], print) == (False, "")
    assert store.read_outcomes(tmp_path / "run")[1].reason == "it was interrupted in block 2"
    assert trials(copy).count(b"\n") == 3


def test_an_agent_that_replaces_a_killed_one_finds_the_campaign_under_way(
    bench: Bench, steps: Path
) -> None:
    """Its process has the lease, and goes on: a second one is not begun."""
    with running([bench]):
        with bench.client() as link:
            link.begin(BEGIN)
        again = Bench(bench.keys, bench.folder, bench.source, steps)
        with running([again]), again.client() as link:
            assert link.part(AskCampaign(id=KEY)).state is CampaignState.RUNNING
            with pytest.raises(InputError, match="asked twice"):
                link.begin(BEGIN)
            allow(steps, 1000)
            eventually(lambda: link.part(AskCampaign(id=KEY)).state is CampaignState.ENDED)
            assert link.part(AskCampaign(id=KEY)).lines == trials(bench.source)


def test_a_campaign_ends_at_its_own_time(bench: Bench, steps: Path) -> None:
    limited = msgspec.structs.replace(BEGIN, limit_s=0.1)
    with running([bench]), bench.client() as link:
        allow(steps, 1)
        link.begin(limited)
        eventually(lambda: link.part(AskCampaign(id=KEY)).state is CampaignState.ENDED)
        part = link.part(AskCampaign(id=KEY))
    # It may not have set its handler of the signal yet.
    assert part.code in {130, -signal.SIGINT}


def test_a_full_disk_here_tears_no_line_and_the_rest_is_pulled_later(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, copy = os.write, tmp_path / "run" / "machine-1"

    def full(descriptor: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "trials.jsonl":
            written(descriptor, data[:700])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(descriptor, data)

    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        with monkeypatch.context() as patched:
            patched.setattr("jissoku.records.machines.os.write", full)
            finished, lost = measure_machines([plan], print)
        assert (finished, lost) == (True, f"{copy} cannot be written: No space left on device")
        assert trials(copy) == b""
        measured(resumed_plan(tmp_path / "run", VERSION), is_resumed=True)
    assert trials(copy) == trials(bench.source)
    assert begun(bench) == 1


def test_a_full_disk_there_begins_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def full(descriptor: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == LEASE_FILE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        lock(descriptor, operation)

    with running([bench]):
        plan = plan_of([bench], tmp_path / "run")
        monkeypatch.setattr("jissoku.fleet.campaigns.fcntl.flock", full)
        measured(plan)
    assert begun(bench) == 0
    reason = store.read_outcomes(tmp_path / "run")[1].reason
    assert reason == "on the agent's host: the lease cannot be written: No space left on device"


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"cmd": ("mine=./x",)}, "--cmd mine=./x: with `jissoku agent --allow-commands`"),
        ({"url": ("mine=http://127.0.0.1:1/",)}, "`jissoku agent --allow-url http://127.0.0.1:1/`"),
        (
            {"arms": ("a", "unheard-of")},
            "no such target: .*with `jissoku agent --recipes DIR`",
        ),
    ],
)
def test_what_one_machine_refuses_is_begun_on_none(
    bench: Bench, tmp_path: Path, asked: dict[str, object], refusal: str
) -> None:
    every = catalogue.recipes()
    free = Permissions(
        commands=True,
        urls=(resolved("http://127.0.0.1:1/"),),
        recipes=dict.fromkeys((*ARMS, "unheard-of"), every["http-server"]),
    )
    other = Bench(bench.keys, tmp_path / "other", bench.source, permissions=free)
    with running([other, bench]):
        with pytest.raises(InputError, match=f"{re.escape(bench.address.text)}: .*{refusal}"):
            plan_of([other, bench], tmp_path / "run", **asked)
        plan_of([other], tmp_path / "alone", **asked)
    assert not (tmp_path / "run").exists()


def test_another_version_is_refused_before_anything_begins(bench: Bench, tmp_path: Path) -> None:
    other = Bench(bench.keys, tmp_path / "other", bench.source, version="jissoku of another test")
    with running([bench, other]), pytest.raises(InputError, match="install the same version"):
        plan_of([bench, other], tmp_path / "run")
    assert begun(bench) == 0
    assert not (tmp_path / "run").exists()


def test_an_agent_runs_none_unless_its_operator_has_said_so(
    agent: RunningAgent, bench: Bench
) -> None:
    bench.port = agent.agent.port
    with (
        pytest.raises(InputError, match="runs no comparisons of its own: with `jissoku agent"),
        bench.client(),
    ):
        pytest.fail("it serves campaigns")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cmd": ("a=./server",)}, "--cmd a=./server: with `jissoku agent --allow-commands`"),
        ({"url": ("a=http://127.0.0.1:1/",)}, "--allow-url"),
        (
            {"recipes": ("folder",)},
            "--recipes: recipes of other folders have to be on each machine: start its",
        ),
        ({"body": "@file"}, "--body: write the body itself"),
        ({"raw": ("file",)}, "--raw: it is a file of one host"),
        ({"baseline": "v1.0"}, "--baseline"),
        ({"server_host": "h:1"}, "--server-host"),
        ({"load_host": ("h:1",)}, "--load-host"),
        ({"machine": ("h:1",)}, "--machine"),
        ({"profile": True}, "--profile"),
        ({"fail_if": ("cost(a) > cost(b)",)}, "--fail-if"),
    ],
)
def test_what_names_a_file_or_is_not_permitted_is_refused(
    asked: dict[str, object], reason: str
) -> None:
    request = ComparisonRequest(**asked)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=re.escape(reason)):
        check_campaign(request, PERMISSIONS)


def test_what_a_body_says_is_no_file() -> None:
    check_campaign(ComparisonRequest(arms=ARMS, body="{}", method="POST"), PERMISSIONS)


@pytest.mark.parametrize("run", ["", "../../../etc", "0123456789ABCDEF", "0" * 17])
def test_an_identifier_is_no_path(run: str) -> None:
    with pytest.raises(InputError, match="no campaign has the identifier"):
        CampaignId(run=run, machine=1).folder()
