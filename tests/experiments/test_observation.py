import sys
from pathlib import Path

import pytest

from jissoku.errors import InputError, TargetError
from jissoku.model import Cores, Counts, Trial
from jissoku.model.experiment import Bench, Claim, Entrant, Experiment, Figures, Setting
from jissoku.observe import bench
from jissoku.observe.cores import allowed
from jissoku.pipeline import observation
from jissoku.records import experiment as folders
from jissoku.targets.place import Place

PRINTS = "print('one_ns 12.5\\n\\ntwo_ns: 3e2')"
CORES = Cores(server=allowed(), stopwatch=allowed(), shared=True)


class Quiet:
    def note(self, text: str) -> None:
        """Nobody is told."""

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Nobody is told."""


def experiment(*tests: str, command: tuple[str, ...] = ("{python}", "-c", PRINTS)) -> Experiment:
    return Experiment(
        name="made",
        title="Made up",
        essay="Why.",
        target=(Entrant(name="one", recipe="jissoku"), Entrant(name="two", recipe="nginx")),
        workload=(Setting(name="hello"), Setting(name="file")),
        claim=tuple(Claim(name=f"c{n}", text="So.", test=(one,)) for n, one in enumerate(tests)),
        bench=(Bench(name="micro", command=command, rounds=6), Bench(name="idle", command=("x",))),
    )


def run(asked: Experiment, folder: Path) -> dict[str, Figures]:
    place = Place(cache=folder, files=folder)
    return observation.figures(asked, {}, place, CORES, Quiet())


def test_only_what_claims_speak_of_is_counted_and_run() -> None:
    asked = experiment(
        "calls(one) < 3", "segments(two@file) < 2", "errors(two) = 0", "figure.one_ns(micro) < 9"
    )
    assert observation.watched(asked) == {"hello": ("one",), "file": ("two",)}
    assert [found.name for found in observation.benches(asked)] == ["micro"]
    assert observation.seconds(asked) == 2 * observation.COUNT_S + 6
    assert observation.seconds(experiment("cost(one) < 3")) == 0


def test_a_bench_is_run_round_by_round(tmp_path: Path) -> None:
    found = run(experiment("figure.one_ns(micro) < 9 * figure.syscall_ns(here)"), tmp_path)
    assert found["micro"].rounds == 6 * ({"one_ns": 12.5, "two_ns": 300.0},)
    assert len(found["here"].rounds) == observation.HERE.rounds
    assert all(one["syscall_ns"] >= 1 for one in found["here"].rounds)


def test_a_bench_that_fails_leaves_its_reason(tmp_path: Path) -> None:
    asked = experiment(
        "figure.one_ns(micro) < 9", command=("{python}", "-c", "raise SystemExit(3)")
    )
    assert run(asked, tmp_path) == {"micro": Figures(reason="micro: exited with code 3")}


@pytest.mark.parametrize("text", ["", "one", "one -3", "One 3", "one 0", "one 1.2.3"])
def test_what_is_no_figure_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="a name and a number above 0"):
        bench.figures("micro", text)


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(TargetError, match="cannot be run"):
        bench.run("micro", [f"{sys.executable}-is-not-there"])


def test_what_was_counted_and_printed_comes_back_from_disk(tmp_path: Path) -> None:
    counters = {"one": Counts(requests=400, per_request={"read": 1.0})}
    figures = {"micro": Figures(rounds=({"one_ns": 1.5},)), "gone": Figures(reason="no cargo")}
    assert (folders.read_counters(tmp_path), folders.read_figures(tmp_path)) == ({}, {})
    folders.write_counters(tmp_path, counters)
    folders.write_figures(tmp_path, figures)
    assert folders.read_counters(tmp_path) == counters
    assert folders.read_figures(tmp_path) == figures
    (tmp_path / folders.FIGURES_FILE).write_text("[]")
    with pytest.raises(InputError, match="not a record"):
        folders.read_figures(tmp_path)
