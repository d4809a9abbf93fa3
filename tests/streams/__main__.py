"""Compares servers of ASGI applications where connections stay open: events and WebSockets.

python -m tests.streams [--starts N] [--seed N] [--file FILE]

The load generator asks for responses, and these end never; so clients in Python ask here, by the
lab's rules: all servers stand ready on one core, one is asked at a time in palindromic order by
clients on another, evenly paced, a turn ends with its last answer, and CPU time is that of all
processes of a server. Each start of all servers is one block.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jissoku.cli.progress import ProgressDisplay
from jissoku.measure.selection import prepare_targets
from jissoku.model import Workload
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest
from jissoku.system.cores import core_assignment, pin_process
from jissoku.system.measurement_lock import measurement_lock
from jissoku.system.processes import cpu_time, process_tree
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from tests.streams import clients, table
from tests.streams.clients import Connections

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "records" / "streams" / "turns.jsonl"

# Recipes, started as they are but with another application of the same name. Granian's turns
# WebSockets off.
SERVERS = ("jissoku-asgi", "uvicorn", "granian", "gunicorn-asgi")
OMITTED = "--no-ws"

STREAMS = 1_000
EVENTS_PER_TURN = 8
EVENT_GAP_S = 0.1

WEB_SOCKETS = 64
MESSAGES_PER_TURN = 1_000
MESSAGE_GAP_S = 1 / 2_000

# Of each start; the first is for compilers and caches, and not counted.
TURNS = 7


def main() -> None:
    """Appends the turns of new starts to the file, and prints the table of all."""
    words = argparse.ArgumentParser(prog="python -m tests.streams", description=__doc__)
    words.add_argument("--starts", type=int, default=8, help="of all servers (default: 8)")
    words.add_argument("--seed", type=int, default=1, help="of orders and ports (default: 1)")
    words.add_argument("--file", type=Path, default=RESULTS, help="where turns are kept")
    asked = words.parse_args()
    asked.file.parent.mkdir(exist_ok=True, parents=True)
    rng = random.Random(asked.seed)
    with measurement_lock("streams"), asked.file.open("a") as kept:
        chosen = ComparisonRequest(arms=SERVERS)
        arms = prepare_targets(chosen, ProgressDisplay(quiet=False)).arms
        prepared = {arm.prepared.name: arm.prepared for arm in arms}
        for start in range(asked.starts):
            for turn in _turns(prepared, rng):
                kept.write(json.dumps({"seed": asked.seed, "start": start, **turn}) + "\n")
                kept.flush()
            sys.stderr.write(f"{start + 1} of {asked.starts} starts\n")
    sys.stdout.write(table.text(table.read(asked.file)))


def _turns(
    prepared: Mapping[str, PreparedTarget], rng: random.Random
) -> Iterator[dict[str, str | float]]:
    cores = core_assignment(None, None)
    launcher = Launcher(cores=cores.server, rng=rng)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(_running(launcher, one)) for name, one in prepared.items()
        }
        order = rng.sample(sorted(servers), len(servers))
        stack.enter_context(pin_process(cores.generator))
        with ExitStack() as opened:
            streams = {
                name: opened.enter_context(clients.event_streams(_port(one), STREAMS))
                for name, one in servers.items()
            }
            for turn, name in _palindromes(order):
                yield _turn("events", turn, name, servers[name], streams[name])
        with ExitStack() as opened:
            sockets = {
                name: opened.enter_context(clients.web_sockets(_port(one), WEB_SOCKETS))
                for name, one in servers.items()
            }
            for turn, name in _palindromes(order):
                yield _turn("echo", turn, name, servers[name], sockets[name])


def _palindromes(order: Sequence[str]) -> Iterator[tuple[int, str]]:
    for turn in range(TURNS):
        for name in order if turn % 2 else reversed(order):
            yield turn, name


def _turn(
    work: str, turn: int, name: str, server: RunningTarget, opened: Connections
) -> dict[str, str | float]:
    pids = process_tree(server.pid)
    before = cpu_time(pids)
    if work == "events":
        port = _port(server)
        done = clients.publish(port, opened, STREAMS, times=EVENTS_PER_TURN, gap_s=EVENT_GAP_S)
    else:
        done = clients.echo(opened, times=MESSAGES_PER_TURN, gap_s=MESSAGE_GAP_S)
    used_ns = cpu_time(pids).run_ns_since(before)
    return {"work": work, "turn": turn, "server": name, "ns": round(used_ns / done, 1)}


@contextmanager
def _running(launcher: Launcher, prepared: PreparedTarget) -> Iterator[RunningTarget]:
    assert prepared.start is not None
    words = tuple(word for word in prepared.start.command if word != OMITTED)
    changed = updated(
        prepared,
        start=updated(prepared.start, command=words),
        values=prepared.values | {"apps": str(HERE / "apps")},
    )
    with launcher.ready(changed, Workload()) as running:
        yield running


def _port(server: RunningTarget) -> int:
    port = server.address.port
    assert port is not None
    return port


if __name__ == "__main__":
    main()
