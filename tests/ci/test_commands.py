"""`compare --fail-if` and `bisect` from their arguments to their exit codes, without load."""

import math
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from jissoku.design.schedule import bisect, bisection_steps_max
from jissoku.inference.bounds import read_bound
from jissoku.measure import asked_comparison
from jissoku.measure.comparison import CompareConfig
from jissoku.model.summary import BoundStatus
from jissoku.system.interruption import Interrupted
from tests.ci.made_up import BASE_NS, campaign
from tests.ci.server_repository import COMMAND, git, server_repository
from tests.conftest import Run

pytestmark = pytest.mark.slow

BOUND = "cost(head) > 1.01 x cost(base)"
COMPARE = [
    "compare", "--cmd", f"head={COMMAND}", "--baseline", "HEAD", "--fail-if", BOUND, "-R", "5000",
    "--seed", "7", "--out", "out", "--quiet",
]  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its fourth commit, of seven, costs more than the first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return server_repository(tmp_path / "repository", [0, 0, 0, 500, 500, 500, 500])


def measured_as(monkeypatch: pytest.MonkeyPatch, *heads: float) -> list[CompareConfig]:
    """Replaces measurements: in each, `head` costs this many times as much as `base`."""
    made: list[CompareConfig] = []

    def costs(config: CompareConfig) -> dict[str, float]:
        made.append(config)
        return {"head": BASE_NS * heads[len(made) - 1]}

    monkeypatch.setattr(asked_comparison, "compare", campaign(costs))
    return made


@pytest.mark.parametrize(
    ("head", "options", "end"),
    [
        (1.0, [], (0, "kept")),
        (0.9, [], (0, "kept")),
        (1.03, [], (3, "exceeded")),
        (1.01, [], (4, "undecided")),
        (1.01, ["--undecided", "ok"], (0, "undecided")),
        (1.03, ["--undecided", "ok"], (3, "exceeded")),
    ],
)
def test_a_bound_decides_the_exit_code(
    repository: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    *,
    head: float,
    options: list[str],
    end: tuple[int, str],
) -> None:
    made = measured_as(monkeypatch, head)
    done = run([*COMPARE, *options], repository)
    assert (done.returncode, f"fail if {BOUND}: {end[1]}" in done.stderr) == (end[0], True)
    assert [arm.name for arm in made[0].arms] == ["base", "head", "base again"]
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(("second", "code"), [(1.03, 3), (1.0, 4)])
def test_only_what_a_second_run_confirms_is_red(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch, second: float, code: int
) -> None:
    made = measured_as(monkeypatch, 1.03, second)
    done = run([*COMPARE, "--confirm"], repository)
    assert done.returncode == code, done.stderr
    assert [config.folder.name for config in made] == ["out", "out-confirmed"]
    assert made[0].seed != made[1].seed


def test_what_is_kept_is_measured_once(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured_as(monkeypatch, 1.0)
    assert run([*COMPARE, "--confirm"], repository).returncode == 0
    assert len(made) == 1


def test_an_earlier_run_is_compared_with_and_decides_no_bound(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_as(monkeypatch, 1.0, 1.3)
    compare = ["compare", "--cmd", f"head={COMMAND}", "--pairing", "paired", "--quiet"]
    assert run([*compare, "--out", "one"], repository).returncode == 0
    with (repository / "start.sh").open("a") as file:
        file.write("# another program\n")
    done = run([*compare, "--out", "two", "--baseline", "one"], repository)
    assert done.returncode == 0, done.stderr
    assert "The same program in both: floor." in done.stdout
    assert "a change is suspected; unchecked, without a second unchanged arm" in done.stdout
    options = ["--out", "three", "--baseline", "one", "--fail-if", BOUND]
    done = run([*compare, *options], repository)
    assert done.returncode == 2
    assert "the run has no arm 'base'; there are floor, head" in done.stderr


def test_files_may_go_into_the_folder_of_the_run(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_as(monkeypatch, 1.0)
    done = run([*COMPARE, "--export", "junit=out/bounds.xml"], repository)
    assert done.returncode == 0, done.stderr
    assert (repository / "out" / "bounds.xml").is_file()


def bisected(
    repository: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    bad: str,
    good: str = "main~6",
    *more: str,
    ends: BaseException | None = None,
) -> tuple[int, str, list[CompareConfig]]:
    """Exit code, output and measurements; a commit costs what its file says.

    The measurement after the second one raises `ends`.
    """
    made: list[CompareConfig] = []

    def costs(config: CompareConfig) -> dict[str, float]:
        if ends is not None and len(made) == 2:
            raise ends
        made.append(config)
        work = float(git(repository, "show", f"{config.labels['commit']}:work"))
        return {"candidate": BASE_NS + work}

    monkeypatch.setattr(import_module("jissoku.measure.ci"), "compare", campaign(costs))
    words = ["--cmd", COMMAND, "--build", "cat work", "--out", "steps", "--seed", "1", *more]
    done = run(["bisect", good, bad, *words], repository)
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    return done.returncode, done.stdout + done.stderr, made


def test_the_first_dearer_commit_is_named(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text, made = bisected(repository, run, monkeypatch, "main")
    first = git(repository, "rev-parse", "main~3")
    assert code == 0, text
    assert f"The first one is {first[:12]} number 3. {len(made)} measurements" in text
    assert len(made) <= 4
    assert len(list((repository / "steps").glob("*/run.json"))) == len(made)


def test_without_a_bound_half_of_the_increase_is_searched(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text, made = bisected(repository, run, monkeypatch, "main")
    first, *others = (config.bounds for config in made)
    assert (code, first) == (0, ("cost(candidate) > 1.010 x cost(good)",))
    ((half,),) = {*others}
    assert read_bound(half).bound == pytest.approx(math.sqrt(1.05), abs=0.005)
    assert f"Bad is half of that increase or more: {half}." in text
    bound = "cost(candidate) > 1.03 x cost(good)"
    _, _, made = bisected(
        repository, run, monkeypatch, "main", "main~6", "--fail-if", bound, "--out", "given"
    )
    assert {config.bounds for config in made} == {(bound,)}


def test_a_search_says_how_long_it_takes_and_ends_then(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text, made = bisected(repository, run, monkeypatch, "main")
    assert "6 commits: 4 steps, if each is decided at once; measurements take 4 min" in text
    assert made[0].plan.seconds == 60
    clock = iter(range(0, 1000, 9))
    time = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(import_module("jissoku.measure.ci"), "time", time)
    code, text, made = bisected(
        repository, run, monkeypatch, "main", "main~6", "--for", "20s", "--out", "short"
    )
    good, bad = (git(repository, "rev-parse", name)[:12] for name in ("main~6", "main"))
    assert (code, len(made)) == (4, 1), text
    known = f"Known to be good: {good} number 0. Known to be bad: {bad} number 6."
    assert f"The time is over; --for gives it more. {known}" in text


@pytest.mark.parametrize("ends", [Interrupted(), KeyboardInterrupt()])
def test_an_interrupted_search_says_which_commits_are_known(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch, ends: BaseException
) -> None:
    code, text, _ = bisected(repository, run, monkeypatch, "main", ends=ends)
    good, bad = (git(repository, "rev-parse", name)[:12] for name in ("main~6", "main~3"))
    assert code == 130, text
    known = f"Known to be good: {good} number 0. Known to be bad: {bad} number 3."
    assert f"Interrupted. {known} 2 measurements" in text


@pytest.mark.parametrize("count", range(1, 18))
def test_the_steps_of_a_search_are_those_of_the_worst_case(count: int) -> None:
    names = [str(number) for number in range(count)]

    def steps(first: int) -> int:
        def judge(commit: str, _: int) -> BoundStatus:
            return BoundStatus.EXCEEDED if int(commit) >= first else BoundStatus.KEPT

        return bisect(names, judge).steps

    assert bisection_steps_max(count) == max(map(steps, range(count)))


def test_of_an_undecided_search_the_remaining_range_is_printed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third of five commits costs as much more as the bound says; its neighbours do not."""
    repository = server_repository(tmp_path / "repository", [0, 0, 100, 500, 500])
    bound = ("--fail-if", "cost(candidate) > 1.01 x cost(good)")
    code, text, made = bisected(repository, run, monkeypatch, "main", "main~4", *bound)
    first, stuck, last = (git(repository, "rev-parse", f"main~{back}") for back in (3, 2, 1))
    assert (code, len(made)) == (4, 5), text
    known = f"Known to be good: {first[:12]} number 1. Known to be bad: {last[:12]} number 3."
    assert f"Undecided at {stuck[:12]} number 2. {known} 5 measurements" in text


def test_a_last_commit_that_costs_the_same_is_said(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text, made = bisected(repository, run, monkeypatch, "main~4")
    last = git(repository, "rev-parse", "main~4")
    assert (code, len(made)) == (4, 1), text
    assert f"{last[:12]} does not exceed the bound" in text
