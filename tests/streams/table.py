"""What the turns say: CPU time of each event and message, and ratios with intervals."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import stats as distributions  # type: ignore[import-untyped]

from tests.records_table import table_of

BASELINE = "jissoku-asgi"
WORK = {"events": "an event to one of 1,000 open streams", "echo": "a message over a WebSocket"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One server's turn.

    Attributes:
        start: Seed and number of the start of all servers.
        turn: Number of its turn in this start; 0 is not counted.
        ns: CPU nanoseconds of the server for each event or message.
    """

    work: str
    server: str
    start: tuple[int, int]
    turn: int
    ns: float


def read(file: Path) -> list[Turn]:
    """All turns of a file."""
    found = []
    for line in file.read_text("utf-8").splitlines():
        one = json.loads(line)
        start = one.pop("seed"), one.pop("start")
        found.append(Turn(start=start, **one))
    return found


def text(turns: Sequence[Turn]) -> str:
    """A table in Markdown, a row for each server and kind of work."""
    rows = []
    for work, words in WORK.items():
        chosen = [one for one in turns if one.work == work and one.turn]
        names = sorted({one.server for one in chosen}, key=lambda name: (name != BASELINE, name))
        ours = _logs(chosen, BASELINE)
        for row, name in enumerate(names):
            theirs = _logs(chosen, name)
            cost = math.exp(statistics.fmean(theirs.values())) / 1e3
            ratio = "1" if name == BASELINE else _ratio([ours[s] - theirs[s] for s in ours])
            rows.append(("" if row else words, name, f"{cost:.2f}", ratio, str(len(theirs))))
    return table_of(("work", "server", "us of CPU", f"{BASELINE} / it", "starts"), rows)


def _logs(turns: Sequence[Turn], name: str) -> dict[tuple[int, int], float]:
    """The mean logarithm of a server's turns of each start."""
    starts: dict[tuple[int, int], list[float]] = {}
    for one in turns:
        if one.server == name:
            starts.setdefault(one.start, []).append(math.log(one.ns))
    return {start: statistics.fmean(logs) for start, logs in starts.items()}


def _ratio(logs: Sequence[float]) -> str:
    """The geometric mean, with Student's 95 % interval over starts."""
    mean = statistics.fmean(logs)
    half = float(distributions.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs)
    half /= math.sqrt(len(logs))
    value, low, high = (math.exp(one) for one in (mean, mean - half, mean + half))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
