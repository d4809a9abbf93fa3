"""What an agent costs the host of the targets, and whether ratios through one are the local ones.

python -m tests.agent_study cost [--windows N] [--rate R]
python -m tests.agent_study ratios OUT [--runs N] [--rate R] [--for TIME]

The agent is on this machine, at 127.0.0.1. `cost` prints the CPU time of its process as a part of
one core, with the 95 % interval over windows of a second: while a client is connected and nothing
is observed, and while two targets are observed under load; and how many messages passed the
connection in these windows. `ratios` runs `jissoku compare nginx jissoku` N times on this machine
and N times through the agent, in turns, and prints the ratio of each run and of all of a kind.
"""

import argparse
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scipy import stats  # type: ignore[import-untyped]

from jissoku.cli.frame import version_line
from jissoku.fleet.channel import Channel
from jissoku.fleet.connecting import connected
from jissoku.fleet.keys import CLIENT, ListenAddress, make_keys, read_keys
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.host import HostLoad, verified
from jissoku.measure.loadgen import LoadSpec, TrialTiming
from jissoku.model import Workload
from jissoku.system import processes
from jissoku.system.cores import pin_process
from jissoku.system.measurement_lock import measurement_lock
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget

PORT = 17_480
TARGETS = ("nginx", "jissoku")
WINDOW_NS = 1_000_000_000
JISSOKU = (sys.executable, "-m", "jissoku")


@contextmanager
def running_agent(keys: Path) -> Iterator[int]:
    """The process of an agent at 127.0.0.1."""
    words = [*JISSOKU, "agent", "--listen", f"127.0.0.1:{PORT}", "--keys", str(keys)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Listening on ")
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Counted:
    """Counts the messages of all channels of this process."""

    def __init__(self) -> None:
        self.messages = 0
        send, receive = Channel.send, Channel.receive

        def sent(channel: Channel, message: bytes, limit_s: float) -> None:
            self.messages += 1
            send(channel, message, limit_s)

        def received(
            channel: Channel, limit_s: float, give_up: Callable[[], bool] | None = None
        ) -> bytes:
            found = receive(channel, limit_s, give_up)
            self.messages += 1
            return found

        setattr(Channel, "send", sent)  # noqa: B010 - mypy knows both as methods
        setattr(Channel, "receive", received)  # noqa: B010


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of a few values, and its 95 % interval (Student)."""
    mean = statistics.fmean(values)
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def cost(windows: int, rate: int) -> None:
    """Prints the agent's part of a core, connected and observing."""
    counted = Counted()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        keys = Path(folder) / "keys"
        make_keys(keys, "127.0.0.1")
        held.enter_context(measurement_lock("agent study"))
        agent = held.enter_context(running_agent(keys))
        address = ListenAddress("127.0.0.1", PORT)
        host = held.enter_context(connected(address, read_keys(keys, CLIENT), version_line()))
        cores = host.assign_cores(None, None)
        held.enter_context(pin_process(cores.generator))
        idle = []
        for _ in range(windows):
            before = processes.cpu_ns(agent)
            began_ns = time.monotonic_ns()
            time.sleep(WINDOW_NS / 1e9)
            idle.append((processes.cpu_ns(agent) - before) / (time.monotonic_ns() - began_ns))
        report("connected, nothing is observed", idle)
        busy, messages, gaps_us = observing(host, agent, windows, rate, counted)
        report(f"two targets are observed at {rate:,} requests/s each", busy)
        say(f"messages in {windows} windows: {messages}")
        say(f"error of an edge: {statistics.median(gaps_us):,.0f} us (median of the windows)")


def observing(
    host: RemoteHost, agent: int, windows: int, rate: int, counted: Counted
) -> tuple[list[float], int, list[float]]:
    """The parts of a core in windows of load, the messages in these, and the errors of edges."""
    cores = host.assign_cores(None, None)
    prepared = [host.prepare(catalogue.recipes()[name], "") for name in TARGETS]
    parts: list[float] = []
    errors_us: list[float] = []
    messages = 0
    with ExitStack() as started:
        arms = {}
        for one in prepared:
            assert isinstance(one, PreparedTarget)
            launcher = host.launcher(1, cores.server, None)
            running = verified(host, launcher, one, Workload(), lambda: False)
            arms[one.name] = started.enter_context(running)
        for seed in range(windows):
            edges: list[tuple[int, int, int]] = []

            def on_window(_: str, edges: list[tuple[int, int, int]] = edges) -> None:
                edges.append((time.monotonic_ns(), processes.cpu_ns(agent), counted.messages))

            workload = Workload(rate_rps=rate)
            spec = LoadSpec.of(arms, workload, TrialTiming(200_000_000, WINDOW_NS), seed)
            load = HostLoad(host=host, spec=spec, cores=cores, started=lambda _: None)
            _, conditions = load.run(on_window)
            (open_ns, before_ns, first), (close_ns, after_ns, last) = edges
            parts.append((after_ns - before_ns) / (close_ns - open_ns))
            messages += last - first
            errors_us.append((conditions.edge_error_ns or 0) / 1000)
    return parts, messages, errors_us


def report(what: str, parts: Sequence[float]) -> None:
    mean, low, high = (100 * value for value in interval(parts))
    say(f"{what}: {mean:.2f} % of a core [{low:.2f}, {high:.2f}], {len(parts)} windows")


def ratios(out: Path, runs: int, rate: int, time_limit: str) -> None:
    """Prints the ratios of runs with and without an agent, which take turns."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        make_keys(keys, "127.0.0.1")
        found: dict[str, list[float]] = {"local": [], "remote": []}
        there = ["--server-host", f"127.0.0.1:{PORT}", "--server-keys", str(keys)]
        for number in range(runs):
            for kind, more in (("local", []), ("remote", there)):
                place = out / f"{kind}-{number}"
                words = ["--rate", str(rate), "--for", time_limit, "--seed", str(number)]
                with ExitStack() as held:
                    if more:
                        held.enter_context(running_agent(keys))
                    compared([*words, *more, "--out", str(place)])
                found[kind].append(ratio_of(place, kind))
        for kind, logs in found.items():
            mean, low, high = map(math.exp, interval(logs))
            say(f"{kind}: {mean:.3f} [{low:.3f}, {high:.3f}], {runs} runs")
        both = zip(found["remote"], found["local"], strict=True)
        mean, low, high = map(math.exp, interval([there - here for there, here in both]))
        say(f"remote over local: {mean:.3f} [{low:.3f}, {high:.3f}]")


def compared(words: Sequence[str]) -> None:
    done = subprocess.run(
        [*JISSOKU, "compare", *TARGETS, *words], capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 4}:
        raise SystemExit(done.stderr)


def ratio_of(folder: Path, kind: str) -> float:
    """The logarithm of the ratio of a run's costs, which is printed with its interval."""
    found = json.loads((folder / "report.json").read_text())["comparisons"]
    one = next(
        one
        for one in found
        if (one["metric"], one["arm"], one["against"]) == ("cost", TARGETS[1], TARGETS[0])
    )
    ratio = one["ratio"]
    shown = f"{ratio['value']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"
    say(f"{folder.name}: {shown}, {ratio['blocks']} blocks ({kind})")
    return math.log(ratio["value"])


def main() -> None:
    """Measures one of both."""
    words = argparse.ArgumentParser(prog="python -m tests.agent_study")
    verbs = words.add_subparsers(dest="verb", required=True)
    of_cost = verbs.add_parser("cost")
    of_cost.add_argument("--windows", type=int, default=30)
    of_cost.add_argument("--rate", type=int, default=2_000, help="requests per second to each")
    of_ratios = verbs.add_parser("ratios")
    of_ratios.add_argument("out", type=Path)
    of_ratios.add_argument("--runs", type=int, default=4)
    of_ratios.add_argument("--rate", type=int, default=2_000)
    of_ratios.add_argument("--for", dest="time_limit", default="45s")
    asked = words.parse_args()
    if asked.verb == "cost":
        cost(asked.windows, asked.rate)
    else:
        ratios(asked.out, asked.runs, asked.rate, asked.time_limit)


if __name__ == "__main__":
    main()
