"""Loads from several load hosts, whose agents are in this process, as their target is."""

import http.server
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku import inference
from jissoku.errors import HostLost, InputError
from jissoku.fleet import wire
from jissoku.fleet.bench import Flight, Volley
from jissoku.fleet.channel import GaveUp
from jissoku.fleet.connecting import session
from jissoku.fleet.keys import CLIENT, read_keys
from jissoku.fleet.load_agent import LoadAgent
from jissoku.fleet.load_wire import Echo, EndLoad, LoadResult
from jissoku.fleet.permissions import Permissions
from jissoku.measure.loadgen import Generated, LoadSpec, Share, TrialTiming, run_load
from jissoku.measure.observation import LocalObserver, Observer
from jissoku.model import CoreAssignment, TrialKind, Workload, updated
from jissoku.system.cores import available_cores, pin_process
from tests.fleet.conftest import VERSION, RunningAgent, running_agent
from tests.inference import factories

MS = 1_000_000
HOST = "127.0.0.1"
RATE = 400


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # One packet for head and body.
    disable_nagle_algorithm: ClassVar[bool] = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"Hello")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def urls() -> Iterator[tuple[str, str]]:
    """Two targets."""
    with ExitStack() as held:
        found = []
        for _ in range(2):
            server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
            server.daemon_threads = True
            held.callback(server.server_close)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            held.callback(server.shutdown)
            found.append(f"http://{HOST}:{server.server_port}/")
        yield found[0], found[1]


@contextmanager
def load_agents(
    keys: Path, count: int, cores: Sequence[str | None] = (None,) * 2
) -> Iterator[tuple[list[RunningAgent], list[LoadAgent]]]:
    """Agents that send load to this machine, from cores that may be given, each with its client."""
    with ExitStack() as held:
        # Each agent binds this process to its cores, and they need not end in their order.
        held.enter_context(pin_process(available_cores()))
        agents, loads = [], []
        for own in cores[:count]:
            agent = held.enter_context(
                running_agent(keys, permissions=Permissions(load_to=frozenset({HOST})))
            )
            opened = session(agent.address, read_keys(keys, CLIENT), VERSION, LoadAgent)
            load = held.enter_context(opened)
            load.choose_cores(HOST, own)
            agents.append(agent)
            loads.append(load)
        yield agents, loads


def spec_of(urls: Sequence[str], slice_ns: int | None = 50 * MS, window_ms: int = 400) -> LoadSpec:
    return LoadSpec(
        arms=("one", "two")[: len(urls)],
        urls=tuple(urls),
        roots=(None,) * len(urls),
        body=b"Hello",
        status=200,
        workload=Workload(connections=4, rate_rps=RATE),
        timing=TrialTiming(100 * MS, window_ms * MS, slice_ns),
        seed=3,
    )


def volley(agents: Sequence[RunningAgent], loads: Sequence[LoadAgent], spec: LoadSpec) -> Volley:
    return Volley(loads, spec, Echo(host=HOST, port=agents[0].agent.port), Flight())


def generators() -> list[int]:
    """The load generators that this process has started."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # A thread or a process has ended meanwhile.
            for pid in (task / "children").read_text().split():
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"--armed" in words:
                    found.append(int(pid))
    return found


def eventually(is_true: Callable[[], bool], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_several_load_hosts_send_what_one_sends(keys_folder: Path, urls: tuple[str, str]) -> None:
    """The same requests in slices at the same times, though the hosts do not talk to each other."""
    found = []
    for count in (1, 2):
        with load_agents(keys_folder, count) as (agents, loads):
            done = volley(agents, loads, spec_of(urls)).fire()
        assert done.report is not None, done.stderr
        found.append(done)
    one, two = (done.report["targets"] for done in found if done.report)
    # Both have a slot for a slice of 50 ms, and one more slice than half of the window has.
    per_slice = RATE * 50 // 1000
    for ours, theirs in zip(one, two, strict=True):
        for both in (ours, theirs):
            assert {part["requests"] for part in both["slices"]} == {per_slice}
            assert both["requests"] == per_slice * len(both["slices"])
            assert sum(both["errors"].values()) == 0
            assert both["rate_rps_offered"] == pytest.approx(RATE)
            histogram = HdrHistogram.decode(both["histogram"])
            assert histogram.get_total_count() == both["requests"]
        assert len(ours["slices"]) == len(theirs["slices"])
        assert (ours["connections_opened"], theirs["connections_opened"]) == (4, 4)
    hosts = found[1].conditions["load_hosts"]
    assert [host.requests for host in hosts] == [sum(one["requests"] for one in two) // 2] * 2
    for host in hosts:
        assert 0 < host.path_ns < 1_000 * MS
        assert host.path_ns_loaded > 0
        assert host.clock_error_ns > 0
        assert host.wait_fraction is not None
        assert host.tcp_segments > 0
    times = found[1].times
    assert times.opened_ns is not None
    assert times.closed_ns is not None
    assert times.closed_ns - times.opened_ns >= max(one["duration_ns"] for one in two)


def test_a_closed_loop_is_divided_by_connections(keys_folder: Path, urls: tuple[str, str]) -> None:
    spec = spec_of(urls[:1], None)
    spec = updated(spec, workload=updated(spec.workload, rate_rps=None, connections=5))
    with load_agents(keys_folder, 2) as (agents, loads):
        done = volley(agents, loads, spec).fire()
    assert done.report is not None, done.stderr
    (found,) = done.report["targets"]
    assert found["connections_opened"] == 5
    assert found["rate_rps_offered"] is None
    assert found["requests"] == sum(host.requests for host in done.conditions["load_hosts"])
    assert len(done.report["threads"]) == 2


def test_a_load_generator_that_dies_in_a_slice_drops_the_load_and_is_named(
    keys_folder: Path, urls: tuple[str, str]
) -> None:
    with load_agents(keys_folder, 2) as (agents, loads):
        fired = volley(agents, loads, spec_of(urls, window_ms=3_000))
        killed = threading.Thread(target=kill_one_under_load)
        killed.start()
        done = fired.fire()
        killed.join()
        assert done.report is None
        assert done.code == -signal.SIGKILL
        assert re.match("load host [12]: the load generator ended with code -9", done.stderr)
        # The next load has all of its hosts again.
        again = volley(agents, loads, spec_of(urls)).fire()
        assert again.report is not None, again.stderr
        assert len(again.conditions["load_hosts"]) == 2


def kill_one_under_load() -> None:
    """Kills a load generator in the middle of its window of three seconds."""
    eventually(lambda: len(generators()) == 2)
    time.sleep(1.5)
    os.kill(generators()[0], signal.SIGKILL)


@pytest.mark.slow
def test_a_load_host_whose_load_generator_is_held_is_named_with_each_arm(
    keys_folder: Path, urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of both hosts has all requests: that one of them sent late is not seen in it."""
    first, last = available_cores()[0], available_cores()[-1]
    if first == last:
        pytest.skip("two load hosts need two cores")
    held = threading.Event()

    def hold(_: LocalObserver) -> None:
        if not held.is_set():
            held.set()
            (pid,) = [one for one in generators() if os.sched_getaffinity(one) == {last}]
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(0.8, os.kill, (pid, signal.SIGCONT)).start()

    monkeypatch.setattr(LocalObserver, "window_opened", hold)

    def generate(
        spec: LoadSpec, cores: object, started: object, observer: Observer, on_window: object
    ) -> Generated:
        del cores, started, on_window
        observer.start()
        return volley(agents, loads, spec).fire()

    spec = spec_of(urls, window_ms=1_000)
    cores = CoreAssignment(server=(first,), generator=(first, last))
    with load_agents(keys_folder, 2, (str(first), str(last))) as (agents, loads):
        found, conditions = run_load(spec, cores, lambda _: None, generate=generate)
    assert len({host.requests for host in conditions.load_hosts}) == 1
    trial = factories.trial(TrialKind.TIME_SLICED, *found, conditions=conditions)
    late = [one for one in inference.trial_checks(trial) if one.name == "late-sends"]
    assert {one.arm for one in late} == {"one", "two"}
    for one in late:
        assert " of the requests of load host 2 were sent at least " in one.message


def test_a_load_host_that_is_lost_in_a_slice_is_named_and_ends_the_run(
    keys_folder: Path, urls: tuple[str, str]
) -> None:
    with load_agents(keys_folder, 2) as (agents, loads):
        fired = volley(agents, loads, spec_of(urls, window_ms=2_000))
        ended = threading.Timer(1.0, agents[1].agent.close)
        ended.start()
        lost = (
            rf"the agent on 127\.0\.0\.1:{agents[1].agent.port} has .*load of this trial is dropped"
        )
        with pytest.raises(HostLost, match=lost):
            fired.fire()
        ended.join()
        assert loads[1].lost
        assert not loads[0].lost, "the other one has waited for its end"
        eventually(lambda: not generators())


def test_a_load_that_is_given_up_leaves_no_load_generator(
    keys_folder: Path, urls: tuple[str, str]
) -> None:
    with load_agents(keys_folder, 2) as (agents, loads):
        fired = volley(agents, loads, spec_of(urls, window_ms=30_000))
        ended = threading.Timer(1.0, fired.flight.terminate)
        ended.start()
        with pytest.raises(GaveUp):
            fired.fire()
        ended.join()
        eventually(lambda: not generators())


def test_a_target_that_is_gone_ends_the_load_before_its_start(
    keys_folder: Path, urls: tuple[str, str]
) -> None:
    gone = f"http://{HOST}:1/"
    with load_agents(keys_folder, 2) as (agents, loads):
        done = volley(agents, loads, spec_of((urls[0], gone))).fire()
        assert done.report is None
        assert f" {gone}: " in done.stderr, "so that the arm is known"
        assert not generators()


def test_an_armed_load_ends_with_its_client(keys_folder: Path, urls: tuple[str, str]) -> None:
    share = Share(number=0, of=1, slot_ns=60 * MS)
    with load_agents(keys_folder, 1) as (_, (load,)):
        assert load.arm(spec_of(urls), share, None).is_armed
        assert len(generators()) == 1
        load.drop()
        assert not generators()
        assert load.arm(spec_of(urls), share, None).is_armed
    eventually(lambda: not generators())


def test_a_load_whose_start_has_passed_is_none(keys_folder: Path, urls: tuple[str, str]) -> None:
    with load_agents(keys_folder, 1) as (_, (load,)):
        share = Share(number=0, of=1, slot_ns=60 * MS)
        assert load.arm(spec_of(urls), share, None).is_armed
        load.begin(time.monotonic_ns() - 1)
        found = load.end(10, lambda: False)
        assert found.report is None
        assert "had passed" in found.stderr


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        ("http://192.0.2.7:80/", "it sends no load there: .*--load-to HOST"),
        ("http://localhost:80/", "it sends no load there"),
        ("unix:/run/docker.sock:/", "it sends no load there"),
        ("ftp://127.0.0.1/", "it sends no load there"),
    ],
)
def test_load_goes_to_no_other_host(keys_folder: Path, url: str, refusal: str) -> None:
    with load_agents(keys_folder, 1) as (_, (load,)):
        with pytest.raises(InputError, match=refusal):
            load.arm(spec_of([url]), Share(number=0, of=1), None)
        elsewhere = Echo(host="192.0.2.7", port=22)
        with pytest.raises(InputError, match="it sends no load there"):
            load.arm(spec_of([f"http://{HOST}:1/"]), Share(number=0, of=1), elsewhere)
        assert not generators()


def test_an_agent_sends_no_load_unless_its_operator_says_where(keys_folder: Path) -> None:
    with running_agent(keys_folder) as agent:
        opened = session(agent.address, read_keys(keys_folder, CLIENT), VERSION, LoadAgent)
        with opened as load, pytest.raises(InputError, match="it sends no load: with `jissoku"):
            load.choose_cores(HOST, None)


@pytest.mark.parametrize(
    ("connections", "share", "refusal"),
    [
        (2, Share(number=2, of=3), "between 1 and 100,000 connections"),
        (4, Share(number=3, of=3), "shares"),
        (4, Share(number=-1, of=3), "shares"),
        (4, Share(number=0, of=2_000), "shares"),
    ],
)
def test_a_share_that_no_client_asks_for_is_refused(
    keys_folder: Path, connections: int, share: Share, refusal: str
) -> None:
    spec = spec_of([f"http://{HOST}:1/"])
    spec = updated(spec, workload=updated(spec.workload, connections=connections))
    with load_agents(keys_folder, 1) as (_, (load,)):
        with pytest.raises(InputError, match=refusal):
            load.arm(spec, share, None)
        endless = updated(spec, timing=TrialTiming(0, 10**15))
        with pytest.raises(InputError, match="too long"):
            load.arm(endless, Share(number=0, of=1), None)
        with pytest.raises(InputError, match="no load is armed"):
            load.ask(EndLoad(), LoadResult)
        assert isinstance(load.clock().round_trip_ns, int)


def test_shares_add_up() -> None:
    for of in (1, 2, 3, 7):
        shares = [Share(number=number, of=of) for number in range(of)]
        assert sum(share.connections(64) for share in shares) == 64
        assert all(share.requests(100) * of >= 100 for share in shares)
        assert sum(float(share.rate(1_001)) for share in shares) == pytest.approx(1_001, abs=1e-5)
    assert Share(number=0, of=2).rate(1_000) == "500"


def test_messages_about_load_survive_the_wire() -> None:
    asked = wire.Numbered(number=1, request=EndLoad())
    assert wire.decoded(wire.encoded(asked), wire.Numbered) == asked
