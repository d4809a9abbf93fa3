"""How long the index of many runs takes: made-up runs in a folder, then each step in a new process.

    python -m tests.history.index_bench FOLDER [RUNS]

The folder is made when it is not there (100 MB, one minute for 10,000 runs), and used again
otherwise. Their headers are real, of their trials only the size is there: an indexed run's are not
read. Prints seconds, the best of a step's repetitions, and the process's memory at its peak. Not
collected as a test: nothing here has a bound.
"""

import gc
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import json, structs
from starlette.requests import Request

from jissoku.history.index import HistoryIndex
from jissoku.inference.run_rows import REVISION, program_key, run_rows
from jissoku.measure.history import open_history
from jissoku.model import Run
from jissoku.model.history import BlockRow, RunRows
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from jissoku.records.run_folder import run_key
from jissoku.ui import pages
from jissoku.ui.render import Site
from jissoku.ui.run_index import Indexer, RunIndex
from tests.inference import factories
from tests.inference.factories import TrueValues

Found = TypeVar("Found")

RUNS = 10_000
BATCH = 250
# Of a quick run of seven targets.
TRIALS_SIZE = 347_000
TARGETS = ("floor", "a", "b", "c", "d", "e", "f")
TRUTHS = {name: TrueValues(cost_ns=5_000 + 700 * number) for number, name in enumerate(TARGETS)}
REPETITIONS = 5
TAU, SPREAD, STEP = 0.005, 0.006, 0.03

PAIRS = (
    "SELECT machine, workload, arm, other, avg(ratio), count(*) FROM pairs"
    " JOIN runs USING (run) WHERE governor = '' AND arm = 'a'"
    " GROUP BY machine, workload, arm, other"
)
BEST = (
    "SELECT started_utc, arm, multiple FROM standings JOIN runs USING (run)"
    " WHERE arm = 'c' ORDER BY multiple LIMIT 50"
)


def main() -> None:
    """Makes the runs, and measures each step in a process of its own."""
    folder = Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    if not (folder / "runs").exists():
        _build(folder, count)
    if len(HistoryIndex(folder / "cache", REVISION).known()) < count:
        sys.exit(f"{folder} has no index of this version with {count} runs: name a new folder")
    for step in ("open", "open", "new", "queries", "target", "pages"):
        subprocess.run([sys.executable, "-m", __spec__.name, str(folder), step], check=True)


def _build(folder: Path, count: int) -> None:
    """Folders of runs, and their index. Each run is of another hour, twenty of one boot."""
    template = _header(1)
    rows = run_rows("template", template, factories.trials(template, TRUTHS))
    index = HistoryIndex(folder / "cache", REVISION)
    batch: list[RunRows] = []
    rng = random.Random(1)
    for number in range(count):
        place = folder / "runs" / f"month{number // 720:02}" / f"run{number}"
        run = _header(number)
        place.mkdir(parents=True)
        (place / "run.json").write_bytes(json.encode(run))
        with (place / "trials.jsonl").open("wb") as trials:
            # A whole line, as of a run that is complete.
            trials.seek(TRIALS_SIZE + number - 1)
            trials.write(b"\n")
        renamed = _renamed(rows, run_key(place), run)
        batch.append(structs.replace(renamed, blocks=_varied(renamed.blocks, number, rng)))
        if len(batch) == BATCH:
            index.add(batch)
            batch = []
    index.add(batch)


def _header(number: int) -> Run:
    month, hour = divmod(number, 720)
    return updated(
        factories.sliced(TARGETS, floor="floor"),
        arms=tuple(
            updated(factories.arm(name), binary_sha256=f"{name}{number // 500}") for name in TARGETS
        ),
        seed=number,
        started_utc=(
            f"{2020 + month // 12}-{month % 12 + 1:02}-{hour // 24 + 1:02}T{hour % 24:02}:00:00Z"
        ),
        boot=f"boot{number // 20}",
    )


def _renamed(rows: RunRows, key: str, run: Run) -> RunRows:
    renamed = {
        table: tuple(structs.replace(row, run=key) for row in getattr(rows, table))
        for table in rows.__struct_fields__
    }
    (header,) = renamed["runs"]
    renamed["runs"] = (structs.replace(header, started_utc=run.started_utc, boot=run.boot),)
    binaries = {arm.name: program_key(arm) for arm in run.arms}
    renamed["arms"] = tuple(
        structs.replace(row, program=binaries[row.arm]) for row in renamed["arms"]
    )
    return RunRows(**renamed)


def _varied(blocks: tuple[BlockRow, ...], number: int, rng: random.Random) -> tuple[BlockRow, ...]:
    """Each occasion differs by TAU, each block by SPREAD, and one program is dearer by STEP."""
    occasion = random.Random(number // 20)
    logs = {name: occasion.gauss(0, TAU / 2**0.5) for name in TARGETS}
    logs["c"] += STEP * (number // 500 == 15)
    return tuple(
        structs.replace(
            row, ln_ratio=row.ln_ratio + logs[row.arm] - logs[row.other] + rng.gauss(0, SPREAD)
        )
        for row in blocks
    )


def _step(folder: Path, step: str) -> None:
    """One step; imports are not part of its time, nor of the collector's, as in `jissoku ui`."""
    gc.freeze()
    roots, cache = [folder / "runs"], folder / "cache"
    if step == "new":
        _add_run(folder)
    if step == "pages":
        _pages(roots, cache)
    elif step == "target":
        _target(roots, cache)
    else:
        name = "one new run" if step == "new" else "warm start"
        found = _timed(f"{name}: index", lambda: open_history(roots, _drop, cache), 1)
        _timed(f"{name}: list", found.headers, 1)
        if step == "new":
            _add_run(folder)
            again = _timed(
                "another one, beside pages", lambda: open_history(roots, _drop, cache, found), 1
            )
            _timed("another one: list", again.headers, 1)
        if step == "queries":
            _timed("pairs joined with runs", lambda: found.session.execute(PAIRS).fetchall())
            _timed("standings joined, sorted", lambda: found.session.execute(BEST).fetchall())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{step + ': peak':34} {peak:8.0f} MB\n")


def _add_run(folder: Path) -> None:
    run = updated(_header(0), seed=time.time_ns())
    with RunWriter(folder / "runs" / f"new{run.seed}", run) as writer:
        for trial in factories.trials(run, TRUTHS):
            writer.add(trial)


def _drop(_: str) -> None:
    """Messages are not shown."""


def _pages(roots: list[Path], cache: Path) -> None:
    library = RunIndex(roots, cache, Indexer(cache))
    runs_page = Site(runs=library).page(pages.runs)
    _timed("first page", lambda: runs_page(_request("")), 1)
    _timed("list", lambda: runs_page(_request("")))
    _timed("list, filtered", lambda: runs_page(_request("text=floor+run99")))
    _timed("list, sorted", lambda: runs_page(_request("sort=targets")))
    runs = library.headers()
    keys = runs[-2].row.run, runs[-1].row.run
    _timed("two runs compared", lambda: library.difference(*keys), 1)


def _target(roots: list[Path], cache: Path) -> None:
    library = RunIndex(roots, cache, Indexer(cache))
    site = Site(runs=library)
    target_page, changes_page = site.page(pages.target), site.page(pages.changes)
    _timed("warm start", library.headers, 1)
    _timed("first target's history", lambda: library.series("a"), 1)
    _timed("another target's history", lambda: library.series("c"), 1)
    _timed("a target's first page", lambda: target_page(_request("name=d")), 1)
    _timed("a target's page", lambda: target_page(_request("name=d")))
    _timed("changes of all targets", lambda: changes_page(_request("")), 1)


def _request(query: str) -> Request:
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": "/",
            "server": ("127.0.0.1", 80),
            "query_string": query.encode(),
            "headers": [],
        }
    )


def _timed(name: str, work: Callable[[], Found], repetitions: int = REPETITIONS) -> Found:
    times, found = [], []
    for _ in range(repetitions):
        start = time.perf_counter(), time.process_time()
        found = [work()]
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    seconds, cpu = min(times)
    sys.stdout.write(f"{name:34} {seconds:8.3f} s {cpu:8.3f} s of CPU\n")
    return found[0]


if __name__ == "__main__":
    if len(sys.argv) > 2 and not sys.argv[2].isdigit():
        _step(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
