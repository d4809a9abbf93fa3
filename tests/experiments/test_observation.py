import sys
from pathlib import Path

import pytest

from jissoku.errors import InputError, TargetError
from jissoku.measure import counting
from jissoku.measure.host import LocalHost
from jissoku.measure.microbenchmark import SYSCALL_BENCHMARK, parse_output, run_round
from jissoku.measure.progress import ProgressListener
from jissoku.model import CoreAssignment, CounterReadings
from jissoku.model.experiment import (
    BenchmarkOutput,
    Claim,
    Experiment,
    Microbenchmark,
    TargetSpec,
    WorkloadSpec,
)
from jissoku.records import run_folder as folders
from jissoku.system.cores import available_cores

PRINTS = "print('one_ns 12.5\\n\\ntwo_ns: 3e2')"
CORES = CoreAssignment(server=available_cores(), generator=available_cores(), shared=True)


def experiment(*tests: str, command: tuple[str, ...] = ("{python}", "-c", PRINTS)) -> Experiment:
    return Experiment(
        name="made",
        title="Made up",
        description="Why.",
        target=(TargetSpec(name="one", recipe="jissoku"), TargetSpec(name="two", recipe="nginx")),
        workload=(WorkloadSpec(name="hello"), WorkloadSpec(name="file")),
        claim=tuple(Claim(name=f"c{n}", text="So.", test=(one,)) for n, one in enumerate(tests)),
        benchmark=(
            Microbenchmark(name="micro", command=command, rounds=6),
            Microbenchmark(name="idle", command=("x",)),
        ),
    )


def run(asked: Experiment) -> dict[str, BenchmarkOutput]:
    rounds = counting.prepare_benchmarks(asked, {}, LocalHost())
    return dict(counting.run_benchmarks(asked, rounds, CORES, ProgressListener()))


def test_only_what_claims_speak_of_is_counted_and_run() -> None:
    asked = experiment(
        "calls(one) < 3", "segments(two@file) < 2", "errors(two) = 0", "benchmark.one_ns(micro) < 9"
    )
    assert counting.counted_arms(asked) == {"hello": ("one",), "file": ("two",)}
    assert [found.name for found in counting.benchmarks(asked)] == ["micro"]
    assert counting.seconds(asked) == 2 * counting.COUNT_S + 6
    assert counting.seconds(experiment("cost(one) < 3")) == 0


@pytest.mark.slow
def test_a_bench_is_run_round_by_round() -> None:
    found = run(experiment("benchmark.one_ns(micro) < 9 * benchmark.syscall_ns(here)"))
    assert found["micro"].rounds == 6 * ({"one_ns": 12.5, "two_ns": 300.0},)
    assert len(found["here"].rounds) == SYSCALL_BENCHMARK.rounds
    assert all(one["syscall_ns"] >= 1 for one in found["here"].rounds)


def test_a_bench_that_fails_leaves_its_reason() -> None:
    asked = experiment(
        "benchmark.one_ns(micro) < 9", command=("{python}", "-c", "raise SystemExit(3)")
    )
    assert run(asked) == {"micro": BenchmarkOutput(reason="micro: exited with code 3")}


@pytest.mark.parametrize("text", ["", "one", "one -3", "One 3", "one 0", "one 1.2.3"])
def test_what_is_no_figure_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="a name and a number above 0"):
        parse_output("micro", text)


def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(TargetError, match="cannot be run"):
        run_round("micro", [f"{sys.executable}-is-not-there"])


def test_what_was_counted_and_printed_comes_back_from_disk(tmp_path: Path) -> None:
    counters = {"one": CounterReadings(requests=400, per_request={"read": 1.0})}
    figures = {
        "micro": BenchmarkOutput(rounds=({"one_ns": 1.5},)),
        "gone": BenchmarkOutput(reason="no cargo"),
    }
    assert (folders.read_counters(tmp_path), folders.read_benchmarks(tmp_path)) == ({}, {})
    folders.write_counters(tmp_path, counters)
    folders.write_benchmarks(tmp_path, figures)
    assert folders.read_counters(tmp_path) == counters
    assert folders.read_benchmarks(tmp_path) == figures
    (tmp_path / folders.BENCHMARKS_FILE).write_text("[]")
    with pytest.raises(InputError, match="not a record"):
        folders.read_benchmarks(tmp_path)
