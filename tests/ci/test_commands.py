"""`compare --fail-if` and `bisect` from their arguments to their exit codes, without load."""

from importlib import import_module
from pathlib import Path

import pytest

from jissoku.measure.comparison import CompareConfig
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

    monkeypatch.setattr(import_module("jissoku.cli.compare"), "run_campaign", campaign(costs))
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
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch, bad: str, good: str = "main~6"
) -> tuple[int, str, int]:
    """Exit code, output and number of measurements; a commit costs what its file says."""
    measurements = 0

    def costs(config: CompareConfig) -> dict[str, float]:
        nonlocal measurements
        measurements += 1
        work = float(git(repository, "show", f"{config.labels['commit']}:work"))
        return {"candidate": BASE_NS + work}

    monkeypatch.setattr(import_module("jissoku.measure.ci"), "compare", campaign(costs))
    done = run(
        [
            "bisect",
            good,
            bad,
            "--cmd",
            COMMAND,
            "--build",
            "cat work",
            "--out",
            "steps",
            "--seed",
            "1",
        ],
        repository,
    )
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    return done.returncode, done.stdout + done.stderr, measurements


def test_the_first_dearer_commit_is_named(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text, measurements = bisected(repository, run, monkeypatch, "main")
    first = git(repository, "rev-parse", "main~3")
    assert code == 0, text
    assert f"The first one is {first[:12]} number 3. {measurements} measurements" in text
    assert measurements <= 4
    assert len(list((repository / "steps").glob("*/run.json"))) == measurements


def test_of_an_undecided_search_the_remaining_range_is_printed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third of five commits costs as much more as the bound says; its neighbours do not."""
    repository = server_repository(tmp_path / "repository", [0, 0, 100, 500, 500])
    code, text, measurements = bisected(repository, run, monkeypatch, "main", "main~4")
    first, stuck, last = (git(repository, "rev-parse", f"main~{back}") for back in (3, 2, 1))
    assert (code, measurements) == (4, 5), text
    span = f"The first one is after {first[:12]}, and {last[:12]} at the latest."
    assert f"Undecided at {stuck[:12]} number 2. {span} 5 measurements" in text


def test_a_last_commit_that_costs_the_same_is_said(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text, measurements = bisected(repository, run, monkeypatch, "main~4")
    last = git(repository, "rev-parse", "main~4")
    assert (code, measurements) == (4, 1), text
    assert f"{last[:12]} does not exceed the bound" in text
