"""Commits in worktrees: checked out, built, removed; and the search for one."""

from pathlib import Path

import pytest

from jissoku.design.schedule import Bisection, bisect
from jissoku.errors import InputError, TargetError
from jissoku.model.summary import BoundStatus
from jissoku.targets.command import checkout, commits_between, resolve, subject
from tests.ci.server_repository import git
from tests.conftest import Run

NO_RUN = "runs/missing is not the folder of a run: there is no such folder"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five commits; the working directory is a folder inside, with a change of its own."""
    folder = tmp_path / "repository"
    (folder / "app").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for number in range(5):
        (folder / "app" / "value").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"number {number}")
    (folder / "app" / "value").write_text("uncommitted\n")
    monkeypatch.chdir(folder / "app")
    return folder


def test_a_ref_is_checked_out_built_and_removed(repository: Path) -> None:
    with checkout("main~2", "cp value built") as found:
        assert (found.folder / "value").read_text() == "2\n"
        assert (found.folder / "built").read_text() == "2\n"
        assert found.commit == resolve("main~2")
        place = found.folder
    assert not place.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "app" / "value").read_text() == "uncommitted\n"


def test_a_build_that_fails_says_so_and_leaves_nothing(repository: Path) -> None:
    with (
        pytest.raises(TargetError, match="exited with 1") as error,
        checkout("main", "cat nothing"),
    ):
        pass
    assert "nothing" in error.value.stderr
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("ref", ["nowhere", "--help", "main:app/value"])
def test_what_is_no_commit_is_refused(repository: Path, ref: str) -> None:
    assert repository.is_dir()
    with pytest.raises(InputError, match="failed"):
        resolve(ref)


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InputError, match="git rev-parse main failed"):
        resolve("main")


def test_commits_between_two(repository: Path) -> None:
    assert repository.is_dir()
    good, bad = resolve("main~3"), resolve("main")
    subjects = [subject(one) for one in commits_between(good, bad)]
    assert subjects == ["number 2", "number 3", "number 4"]
    assert commits_between(good, good) == ()
    with pytest.raises(InputError, match="no ancestor"):
        commits_between(git(repository, "commit-tree", "main^{tree}", "-m", "alone"), bad)


@pytest.mark.parametrize("first", range(16))
def test_the_first_bad_one_is_found_in_few_steps(first: int) -> None:
    names = [str(number) for number in range(16)]

    def judge(commit: str, _: int) -> BoundStatus:
        return BoundStatus.EXCEEDED if int(commit) >= first else BoundStatus.KEPT

    found = bisect(names, judge)
    assert (found.good, found.bad, found.undecided) == (first - 1, first, ())
    assert found.steps <= 5


def test_a_last_one_that_is_good_ends_the_search() -> None:
    found = bisect(["a", "b"], lambda *_: BoundStatus.KEPT)
    assert (found.bad, found.steps) == (None, 1)


def test_an_undecided_step_is_tried_again_and_then_named() -> None:
    asked = []

    def judge(commit: str, attempt: int) -> BoundStatus:
        asked.append((commit, attempt))
        if commit == "d":
            return BoundStatus.EXCEEDED
        return BoundStatus.UNDECIDED if attempt == 0 or commit == "a" else BoundStatus.KEPT

    found = bisect(["a", "b", "c", "d"], judge)
    assert asked == [("d", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]
    assert (found.good, found.bad) == (2, 3)
    stuck = bisect(["a", "d"], judge)
    assert stuck.undecided == (0,)


def test_a_search_that_is_ended_holds_what_is_known() -> None:
    known = {"d": BoundStatus.EXCEEDED, "b": BoundStatus.KEPT}
    assert bisect([*"abcd"], lambda commit, _: known.get(commit)) == Bisection(1, 3, (), 2)
    assert bisect([*"abcd"], lambda *_: None) == Bisection(-1, None, (), 0)


@pytest.mark.parametrize(
    ("verdicts", "found"),
    [
        # k kept, e exceeded, ? undecided.
        ("kkk?eeee", Bisection(2, 4, (3,), 5)),
        ("kk??eeee", Bisection(1, 4, (2, 3), 7)),
        ("kkkkee?e", Bisection(3, 4, (), 4)),
        ("kkkkkee?", Bisection(4, 5, (), 6)),
        ("kkkkkkk?", Bisection(6, None, (7,), 3)),
        ("????????", Bisection(-1, None, (5, 6, 7), 6)),
    ],
)
def test_neighbours_of_an_undecided_commit_are_measured(verdicts: str, found: Bisection) -> None:
    meant = {"k": BoundStatus.KEPT, "e": BoundStatus.EXCEEDED, "?": BoundStatus.UNDECIDED}
    places = [str(place) for place in range(len(verdicts))]
    assert bisect(places, lambda place, _: meant[verdicts[int(place)]]) == found


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["compare", "floor", "--fail-if", "cost(a)"], "compares nothing"),
        (["compare", "--baseline", "main"], "--baseline needs one command"),
        (["compare", "--cmd", "base=cat {port}", "--baseline", "main"], "choose another"),
        (["compare", "--cmd", "head=cat {port}", "--baseline", "nowhere"], "git rev-parse nowhere"),
        (["compare", "floor", "go", "--baseline", "./runs/missing"], NO_RUN),
        (["compare", "floor", "go", "--baseline", "../app"], "it has no run.json"),
        (
            ["compare", "floor", "go", "--baseline", "runs/missing"],
            f"{NO_RUN}, and it is no commit",
        ),
        (["compare", "floor", "go", "--export", "xml=file"], "formats are benchstat"),
        (["bisect", "main", "main", "--cmd", "cat {port}"], "there is no commit between"),
        (["bisect", "nowhere", "main", "--cmd", "cat {port}"], "git rev-parse nowhere"),
    ],
)
def test_bad_input_is_one_sentence(
    repository: Path, run: Run, arguments: list[str], complaint: str
) -> None:
    done = run(arguments, repository / "app")
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr


COMPARE = ["compare", "--cmd", "head=cat {port}", "--baseline", "main"]
BISECT = ["bisect", "main~1", "main", "--cmd", "cat {port}"]
CONFIRM = ["--fail-if", "cost(head) > 1.01 x cost(base)", "--confirm"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["compare", "--cmd", "head=cat", "--baseline", "main"], "write {port} or {socket}"),
        (["bisect", "main~1", "main", "--cmd", "cat"], "write {port} or {socket}"),
        (
            [*BISECT, "--fail-if", "cost(head) > cost(good)"],
            "no arm 'head'; there are candidate, good",
        ),
        ([*BISECT, "--build", "'"], "cannot be split into words"),
        ([*BISECT, "--out", "steps"], "steps/abc-1 holds a run already"),
        ([*COMPARE, "--build", "'"], "cannot be split into words"),
        ([*COMPARE, "--baseline", "nowhere.whl"], "there is no such wheel"),
        (
            [*COMPARE, "--export", "junit=missing/a"],
            "missing cannot be written: there is",
        ),
        (
            [*COMPARE, "--comment", "missing/a"],
            "missing cannot be written: there is",
        ),
        (
            [*COMPARE, "--step-summary", "/proc/missing/a"],
            "/proc/missing cannot be written: ",
        ),
        ([*COMPARE, "--out", "one"], "one holds a run already"),
        ([*COMPARE, *CONFIRM, "--out", "out"], "out-confirmed holds a run already"),
        (["compare", "floor", "go", "--baseline", "one"], "one/run.json"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(
    repository: Path, run: Run, arguments: list[str], complaint: str
) -> None:
    for name in ("one", "out-confirmed", "steps/abc-1"):
        (repository / "app" / name).mkdir(parents=True)
        (repository / "app" / name / "run.json").write_text('{"schema": ')
    verb, *options = arguments
    build = [] if "floor" in options else ["--build", "touch built"]
    done = run([verb, *build, *options], repository / "app")
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr
    assert "Building" not in done.stderr
    assert "Preparing" not in done.stderr


def test_a_build_with_operators_is_refused_before_anything_runs(
    repository: Path, run: Run, tmp_path: Path
) -> None:
    command = ["compare", "--cmd", "head=python3 {port}", "--baseline", "main"]
    done = run([*command, "--build", f"true && touch {tmp_path}/made"], repository)
    assert done.returncode == 2
    assert "is run without a shell, and '&&' needs one" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_shallow_clone_says_how_to_fetch_the_rest(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = resolve("main~3"), resolve("main")
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", str(clone))
    monkeypatch.chdir(clone)
    for ref in ("main~1", "v1.2", good):
        with pytest.raises(InputError, match="`fetch-depth: 0` of actions/checkout"):
            resolve(ref)
    with pytest.raises(InputError, match="shallow"):
        commits_between(good, bad)
    monkeypatch.chdir(repository)
    with pytest.raises(InputError) as refused:
        resolve("v1.2")
    assert "shallow" not in str(refused.value)
