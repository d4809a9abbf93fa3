"""What reading a value of 100 bytes, of a million keys, costs in a handler that responds with 13.

python -m tests.store_study.in_handler [--blocks N] [--requests N] [--file FILE]

Both handlers run at the same time on one core, and are asked in turns, in closed loops of as many
requests, in palindromic order; CPU time is that of all processes of a server. That works on a
machine that is too busy for rates, too. On a quiet one, this is more precise:

    jissoku compare c-hello c-get --recipes tests/store_study/recipes -R 20k
"""

import argparse
import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from jissoku.cli.progress import ProgressDisplay
from jissoku.inference.estimate import t_interval
from jissoku.measure.selection import prepare_targets
from jissoku.model import Workload
from jissoku.request import ComparisonRequest
from jissoku.system.cores import core_assignment, pin_process
from jissoku.system.processes import cpu_time, process_tree
from jissoku.targets.launch import Launcher
from jissoku.targets.process import RunningTarget
from tests.records_table import table_of

RECIPES = Path(__file__).parent / "recipes"
RESULTS = Path(__file__).parents[2] / "records" / "store" / "handler.jsonl"
HELLO, GET = ARMS = ("c-hello", "c-get")

# Turns of a block, in which steady drift cancels.
ORDER = (HELLO, GET, GET, HELLO)

Line = dict[str, str | int]


def main() -> None:
    """Writes the turns to the file, and prints what they say."""
    words = argparse.ArgumentParser(prog="python -m tests.store_study.in_handler")
    words.add_argument("--blocks", type=int, default=10)
    words.add_argument("--requests", type=int, default=20_000, help="of a turn")
    words.add_argument("--file", type=Path, default=RESULTS, help="where turns are kept")
    asked = words.parse_args()
    chosen = ComparisonRequest(arms=ARMS, recipes=(str(RECIPES),))
    prepared = [arm.prepared for arm in prepare_targets(chosen, ProgressDisplay(quiet=True)).arms]
    cores = core_assignment(None, None)
    launcher = Launcher(cores=cores.server, rng=random.Random(1))
    with ExitStack() as stack:
        servers = {
            one.name: stack.enter_context(launcher.ready(one, Workload())) for one in prepared
        }
        stack.enter_context(pin_process(cores.generator))
        lines = list(_turns(servers, asked.blocks, asked.requests))
    asked.file.parent.mkdir(exist_ok=True, parents=True)
    asked.file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    sys.stdout.write(table(read(asked.file)))


def read(file: Path) -> list[Line]:
    """All turns of a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def table(lines: Sequence[Line]) -> str:
    """CPU time of a request of each, and the ratio with Student's 95 % interval over blocks."""
    costs = {name: _costs(lines, name) for name in ARMS}
    found = t_interval(
        [math.log(get / hello) for hello, get in zip(costs[HELLO], costs[GET], strict=True)]
    )
    ratio, low, high = (math.exp(one) for one in (found.centre, found.low, found.high))
    means = [f"{sum(costs[name]) / len(costs[name]):.2f}" for name in ARMS]
    return table_of(
        ("us of CPU, hello", "us of CPU, get and hello", "ratio", "blocks"),
        [[*means, f"{ratio:.3f} [{low:.3f}, {high:.3f}]", str(len(costs[GET]))]],
    )


def _costs(lines: Sequence[Line], name: str) -> list[float]:
    """Microseconds of a request in each block."""
    sums: dict[int, list[int]] = {}
    for line in lines:
        if line["arm"] == name:
            one = sums.setdefault(int(line["block"]), [0, 0])
            one[0] += int(line["cpu_ns"])
            one[1] += int(line["requests"])
    return [cpu_ns / requests / 1e3 for cpu_ns, requests in sums.values()]


def _turns(servers: dict[str, RunningTarget], blocks: int, requests: int) -> Iterator[Line]:
    for name in ARMS:
        _ask(servers[name], requests)
    for block in range(blocks):
        for name in ORDER:
            pids = process_tree(servers[name].pid)
            before = cpu_time(pids)
            _ask(servers[name], requests)
            used_ns = cpu_time(pids).run_ns_since(before)
            yield {"block": block, "arm": name, "requests": requests, "cpu_ns": round(used_ns)}


def _ask(server: RunningTarget, requests: int) -> None:
    url = f"http://127.0.0.1:{server.address.port}/"
    words = ["load", "--json", "-c", "16", "-n", str(requests), url]
    output = subprocess.check_output([sys.executable, "-m", "jissoku", *words])
    [seen] = json.loads(output)["targets"]
    assert seen["requests"] == requests, seen
    assert not any(seen["errors"].values()), seen


if __name__ == "__main__":
    main()
