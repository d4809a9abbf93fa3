"""What the turns say: operations per second, CPU time of each, and ratios with intervals."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.inference.estimate import t_interval
from tests.records_table import table_of

RESULTS = Path(__file__).parents[2] / "records" / "store" / "turns.jsonl"
BASELINE = "store"
WORK = ("get", "put", "increment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a system.

    Attributes:
        system: `store`, `memcached` or `redis`.
        processes: How many use it at the same time.
        batch: Operations that are asked for at once.
        count: Operations.
        elapsed_ns: Time of the turn.
        client_ns: CPU time of all that use the system; of the store, all that there is.
        server_ns: CPU time of its server.
    """

    block: int
    system: str
    processes: int
    work: str
    batch: int
    count: int
    elapsed_ns: int
    client_ns: int
    server_ns: int

    @property
    def cpu_ns(self) -> float:
        """CPU time of an operation."""
        return (self.client_ns + self.server_ns) / self.count


def read(file: Path) -> list[Turn]:
    """All turns of a file, which has a line about the run first."""
    _, *lines = file.read_text("utf-8").splitlines()
    return [Turn(**json.loads(line)) for line in lines]


def text(turns: Sequence[Turn]) -> str:
    """A table in Markdown, a row for each system and kind of work."""
    rows = []
    kinds = {(WORK.index(one.work), one.batch, one.processes) for one in turns}
    for kind in sorted(kinds):
        work, batch, processes = WORK[kind[0]], *kind[1:]
        chosen = [
            one for one in turns if (one.work, one.batch, one.processes) == (work, batch, processes)
        ]
        names = sorted({one.system for one in chosen}, key=lambda name: (name != BASELINE, name))
        words = work + (f", {batch} at once" if batch > 1 else "")
        words += f", {processes} processes" if processes > 1 else ""
        for row, name in enumerate(names):
            rows.append(["" if row else words, name, *_cells(chosen, name)])
    head = ("work", "system", "operations/s", "us of client", "us of server", "CPU, store / it")
    return table_of(head, rows)


def _cells(turns: Sequence[Turn], name: str) -> list[str]:
    of_blocks = {one.block: one for one in turns if one.system == name}
    mine = list(of_blocks.values())
    rates = [math.log(one.count / one.elapsed_ns * 1e9) for one in mine]
    client, server = (
        f"{statistics.fmean(getattr(one, part) / one.count for one in mine) / 1e3:.2f}"
        for part in ("client_ns", "server_ns")
    )
    ratio = "1"
    if name != BASELINE:
        ours = {one.block: one.cpu_ns for one in turns if one.system == BASELINE}
        logs = [math.log(ours[block] / one.cpu_ns) for block, one in of_blocks.items()]
        ratio = _interval(logs, "{:.3f}")
    return [_interval(rates, "{:,.0f}"), client, server if name != BASELINE else "none", ratio]


def _interval(logs: Sequence[float], form: str) -> str:
    """The geometric mean, with Student's 95 % interval over blocks."""
    found = t_interval(logs)
    value, low, high = (form.format(math.exp(one)) for one in (found.centre, found.low, found.high))
    return f"{value} [{low}, {high}]"
