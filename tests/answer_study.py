"""How soon, how surely and how alike `jissoku compare` answers, beside other programs or alone.

python -m tests.answer_study run OUT [--beside KIND] [--runs N] [-- ARGUMENT...]
python -m tests.answer_study table OUT [--reference REPORT...]

`run` starts `jissoku compare ARGUMENT...` N times, one after the other, and appends one line to
OUT/answers.jsonl for each: its exit code, seconds from the end of the preparation to the first
decided pair and to the last one, and every comparison. Their reports are in OUT/NUMBER. `table`
prints what all of them say together. A reference is the report of another run of the same targets;
a pair that both prove must have the same sign there.

Beside each of the runs goes, until it ends:

nothing     no program of ours
bursts      a process on each core that computes for 30 % of the time, 0.2 to 0.4 s at once
busy-loop   one process that always computes, on whatever core
compiler    `cargo build` of a crate of ours, again and again, in a folder of its own
"""

import argparse
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent

# The end of the preparation, and how many pairs are decided: lines that compare prints.
PREPARED = re.compile(r"Seed \d+; records go to ")
DECIDED = re.compile(r"(\d+) of (\d+) comparisons? of cost (is|are) decided")

BURST_SHARE = 0.3
BURST_S = (0.2, 0.4)

# Within this of the ratio of a quiet run, as a factor, a calm ratio has to be.
CALM_WITHIN = 1.05


def main() -> None:
    """Measures, or prints the table of what was measured."""
    words = argparse.ArgumentParser(prog="python -m tests.answer_study")
    verbs = words.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("out", type=Path)
    run.add_argument("--beside", choices=sorted(BESIDE), default="nothing")
    run.add_argument("--runs", type=int, default=10)
    table_words = verbs.add_parser("table")
    table_words.add_argument("out", type=Path)
    table_words.add_argument("--reference", type=Path, nargs="*", default=[])
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    asked = words.parse_args(given[:end])
    if asked.verb == "run":
        measure(asked.out, asked.beside, asked.runs, given[end + 1 :])
    else:
        lines = (asked.out / "answers.jsonl").read_text(encoding="utf-8").splitlines()
        references = [json.loads(path.read_text(encoding="utf-8")) for path in asked.reference]
        sys.stdout.write(table([json.loads(line) for line in lines], references) + "\n")


def measure(out: Path, beside: str, runs: int, arguments: Sequence[str]) -> None:
    """Starts all runs; a line is written as each ends."""
    out.mkdir(parents=True, exist_ok=True)
    for _ in range(runs):
        folder = out / str(sum(path.is_dir() for path in out.iterdir()))
        with BESIDE[beside](), (out / "answers.jsonl").open("a", encoding="utf-8") as lines:
            answer = {"beside": beside} | one_run(folder, arguments)
            lines.write(json.dumps(answer) + "\n")
        sys.stdout.write(summary_line(answer) + "\n")
        sys.stdout.flush()


def one_run(folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Runs `jissoku compare` and reads its lines as they come, with the time of each."""
    command = [sys.executable, "-m", "jissoku", "compare", *arguments, "--out", str(folder)]
    prepared = time.monotonic()
    first = last = None
    decided = -1
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        text = []
        for line in process.stdout:
            text.append(line)
            if PREPARED.match(line):
                prepared = time.monotonic()
            if (found := DECIDED.match(line)) and int(found[1]) > decided:
                decided, last = int(found[1]), time.monotonic() - prepared
                first = last if first is None and decided else first
    answer = {
        "exit": process.returncode,
        "first_s": first,
        "decided_s": last,
        "total_s": time.monotonic() - prepared,
    }
    report = folder / "report.json"
    if not report.exists():
        return answer | {"output": "".join(text), "condition": "", "comparisons": []}
    summary = json.loads(report.read_text(encoding="utf-8"))
    return answer | {
        "condition": summary["condition"],
        "comparisons": [shortened(pair) for pair in summary["comparisons"]],
    }


def shortened(pair: dict[str, Any]) -> dict[str, Any]:
    """What the tables need of a comparison."""
    ratio = pair["ratio"] or {}
    return {
        "key": key_of(pair),
        "proven": pair["proven"],
        "verdict": pair["verdict"],
        "condition": pair["condition"],
        "is_calm": pair["is_calm"],
        "ratio": ratio.get("value"),
        "low": ratio.get("low"),
        "high": ratio.get("high"),
    }


def key_of(pair: dict[str, Any]) -> str:
    """Names a comparison among those of one run, in one order of its two targets."""
    rate = (pair["load"] or {}).get("rate_rps")
    return f"{pair['metric']} {pair['arm']}/{pair['against']} at {rate}"


def summary_line(answer: dict[str, Any]) -> str:
    """One run in one line."""
    costs = [pair for pair in answer["comparisons"] if pair["key"].startswith("cost ")]
    proven = sum(pair["proven"] for pair in costs)
    seconds = ", ".join(
        f"{name} {answer[name]:.1f}"
        for name in ("first_s", "decided_s", "total_s")
        if answer[name] is not None
    )
    return (
        f"{answer['beside']}: exit {answer['exit']}, {seconds}, {proven} of {len(costs)} proven, "
        f"{answer['condition']}"
    )


def table(answers: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]]) -> str:
    """What all runs say: times, verdicts, signs, and distances from the references."""
    lines = [summary_line(answer) for answer in answers]
    for name in ("first_s", "decided_s", "total_s"):
        values = sorted(answer[name] for answer in answers if answer[name] is not None)
        if values:
            lines.append(
                f"{name}: median {median(values):.1f}, most {values[-1]:.1f}, {len(values)} runs"
            )
    lines.append(f"exit codes: {dict(Counter(answer['exit'] for answer in answers))}")
    with_verdict = sum(any(p["proven"] for p in answer["comparisons"]) for answer in answers)
    lines.append(f"runs with a proven comparison: {with_verdict} of {len(answers)}")
    pairs = [pair for answer in answers for pair in answer["comparisons"]]
    verdicts = Counter(pair["verdict"] for pair in pairs if pair["proven"])
    lines.append(f"proven verdicts of {len(pairs)} comparisons: {dict(verdicts)}")
    lines.append(
        f"runs with a false difference, if all targets are the same: {runs_that_differ(answers)}"
    )
    return "\n".join(lines + list(against(pairs, references)))


def runs_that_differ(answers: Sequence[dict[str, Any]]) -> int:
    """How many runs prove any difference of cost."""
    return sum(
        any(is_difference(p) and p["key"].startswith("cost ") for p in answer["comparisons"])
        for answer in answers
    )


def is_difference(pair: dict[str, Any]) -> bool:
    """Whether a comparison proves that its targets differ."""
    return bool(pair["proven"]) and (pair["low"] > 1 or pair["high"] < 1)


def against(pairs: Sequence[dict[str, Any]], references: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Compares proven differences with those of the references."""
    known: dict[str, list[dict[str, Any]]] = {}
    for report in references:
        for pair in report["comparisons"]:
            known.setdefault(key_of(pair), []).append(shortened(pair))
    same = opposite = undecided = 0
    calm: list[float] = []
    other: list[float] = []
    for pair in pairs:
        for reference in known.get(pair["key"], ()):
            if not (pair["ratio"] and reference["ratio"]):
                continue
            distance = abs(math.log(pair["ratio"] / reference["ratio"]))
            (calm if pair["is_calm"] else other).append(distance)
            if is_difference(reference):
                agrees = (pair["ratio"] > 1) == (reference["ratio"] > 1)
                same += is_difference(pair) and agrees
                opposite += is_difference(pair) and not agrees
                undecided += not is_difference(pair)
    if known:
        yield f"beside the references: sign same {same}, opposite {opposite}, undecided {undecided}"
        for name, distances in (("calm", calm), ("other", other)):
            if distances:
                within = sum(distance <= math.log(CALM_WITHIN) for distance in distances)
                yield (
                    f"{name} ratios: {within} of {len(distances)} within 5 % of the reference, "
                    f"median distance {math.expm1(median(distances)):.1%}"
                )


@contextmanager
def nothing() -> Iterator[None]:
    """No other program."""
    yield


@contextmanager
def computing(*works: Callable[[], None]) -> Iterator[None]:
    """Each work in a process of its own, until the block ends."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            work()
            os._exit(0)
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def bursts_on(core: int) -> None:
    """Computes for BURST_SHARE of the time on one core, in bursts of drawn lengths."""
    os.sched_setaffinity(0, {core})
    drawn = random.Random()
    while True:
        length = drawn.uniform(*BURST_S)
        compute(length)
        time.sleep(length * (1 - BURST_SHARE) / BURST_SHARE * drawn.uniform(0.8, 1.2))


def compute(seconds: float = math.inf) -> None:
    """Computes for a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def compile_again_and_again() -> None:
    """Builds a crate in a folder of its own, cleans it, and begins anew; dies with its group."""
    os.setpgid(0, 0)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CARGO_TARGET_DIR": folder, "CARGO_TERM_QUIET": "true"}

        def stop(*_: object) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            raise SystemExit

        signal.signal(signal.SIGTERM, stop)
        try:
            while True:
                for words in (["build", "--offline", "-p", "jissoku-server"], ["clean"]):
                    subprocess.run(["cargo", *words], cwd=ROOT, env=environment, check=False)  # noqa: S607
        except SystemExit:
            return


BESIDE: dict[str, Callable[[], Any]] = {
    "nothing": nothing,
    "bursts": lambda: computing(
        *(lambda core=core: bursts_on(core) for core in sorted(os.sched_getaffinity(0)))
    ),
    "busy-loop": lambda: computing(compute),
    "compiler": lambda: computing(compile_again_and_again),
}


if __name__ == "__main__":
    main()
