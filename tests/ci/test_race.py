"""A pull request from end to end: a commit is checked out, raced against the working directory, and
decided; the documented files are written, and nothing is left behind.

The injected work is more than a request costs: the decision does not depend on the machine.
"""

from pathlib import Path

import pytest

from tests.ci.server_repository import COMMAND, LIMIT_S, git, run, server_repository, set_work
from tests.conftest import Done

# A machine that other programs use gives no verdict: that is right, and no pull request's fault.
pytestmark = [
    pytest.mark.race,
    pytest.mark.timeout(2 * LIMIT_S),
    pytest.mark.flaky(reruns=2),
]

BOUND = "cost(head) > 1.5 x cost(base)"

# Nanoseconds of busy-waiting per request: more than a request costs.
WORK_NS = 400_000


def raced(folder: Path, *options: str) -> Done:
    """The documented command against the last commit, at a low rate, with few blocks."""
    return run(
        folder, "compare", "--cmd", f"head={COMMAND}", "--baseline", "HEAD", "-R", "1000",
        "--fail-if", BOUND, "--blocks", "6", "--check-blocks", "0", "--seed", "7", "--out", "out",
        "--step-summary", "summary.md", "--comment", "comment.md", "--export", "junit=junit.xml",
        *options,
    )  # fmt: skip


def assert_clean(folder: Path) -> None:
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_a_dearer_head_is_red(tmp_path: Path) -> None:
    folder = server_repository(tmp_path / "repository", [0])
    set_work(folder, WORK_NS)
    done = raced(folder)
    assert done.returncode == 3, done.stderr
    assert "exceeded" in done.stderr
    for name in ("summary.md", "comment.md"):
        text = (folder / name).read_text()
        assert f"{BOUND}: exceeded, proven" in text.replace("\\", "")
        # The server only computes longer; without strace nothing is counted.
        assert "are the same in both" in text or "were not counted" in text
    assert (folder / "comment.md").read_text().startswith("<!-- jissoku -->\n")
    assert (folder / "junit.xml").read_text().count("<failure") == 1
    assert_clean(folder)


def test_an_equal_head_is_green(tmp_path: Path) -> None:
    folder = server_repository(tmp_path / "repository", [0, 0])
    done = raced(folder)
    assert done.returncode == 0, done.stderr
    assert "kept" in (folder / "summary.md").read_text()
    junit = (folder / "junit.xml").read_text()
    assert (junit.count("<testcase"), junit.count("<failure")) == (1, 0)
    assert_clean(folder)


def test_a_build_that_fails_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    folder = server_repository(tmp_path / "repository", [0])
    done = raced(folder, "--build", "sh -c 'echo no compiler >&2; exit 7'")
    assert done.returncode == 1
    assert "no compiler" in done.stderr
    assert not (folder / "out" / "trials.jsonl").exists()
    assert_clean(folder)
