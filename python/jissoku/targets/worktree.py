"""A commit of a git repository, checked out in a separate worktree and built."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError, TargetError
from jissoku.targets.command import plain_words

BUILD_LIMIT_S = 1800.0

OF_HOOKS = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit on disk.

    Attributes:
        commit: Its full hash.
        folder: The folder in it that corresponds to the user's.
    """

    commit: str
    folder: Path


def resolve(ref: str) -> str:
    """The commit that a ref names in the repository around the working directory.

    Raises:
        InputError: There is no repository, or no such commit.
    """
    words = ("--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return _git("rev-parse", *words, what=ref)


def commits_between(good: str, bad: str) -> tuple[str, ...]:
    """Commits after `good` up to `bad`, oldest first, along the first parents.

    Raises:
        InputError: `good` is no ancestor of `bad`.
    """
    if good == bad:
        return ()
    span = f"{good}..{bad}"
    listed = _git("rev-list", "--first-parent", "--reverse", span, what=span)
    found = tuple(listed.split())
    parents = _git("log", "-1", "--format=%P", found[0], what=span).split() if found else []
    if parents[:1] != [good]:
        reason = f"{good[:12]} is no ancestor of {bad[:12]} along the first parents"
        raise InputError(f"{reason}{_shallow_hint()}")
    return found


def subject(commit: str) -> str:
    """The first line of a commit's message."""
    return _git("log", "-1", "--format=%s", commit, what=commit)


@contextmanager
def checkout(ref: str, build: str) -> Iterator[Checkout]:
    """Checks a ref out in a worktree of its own, builds it, and removes it when left.

    Args:
        ref: A branch, tag or commit.
        build: The command that builds it, without a shell; empty: none.

    Raises:
        InputError: As `resolve`.
        TargetError: The build failed; `stderr` has its output.
    """
    commit = resolve(ref)
    inside = _git("rev-parse", "--show-prefix", what=ref)
    with tempfile.TemporaryDirectory(prefix="jissoku-worktree-") as scratch:
        folder = Path(scratch) / "tree"
        try:
            _git("worktree", "add", "--quiet", "--detach", str(folder), commit, what=ref)
            found = Checkout(commit, folder / inside)
            run_build(build, found.folder)
            yield found
        finally:
            with suppress(InputError):  # Interrupted before the worktree existed.
                _git("worktree", "remove", "--force", str(folder), what=ref)


def build_words(build: str) -> list[str]:
    """The words of a build command; none if it is empty.

    Raises:
        InputError: As `plain_words`.
    """
    return plain_words(build, "--build")


def run_build(build: str, folder: Path) -> None:
    """Runs a build command in a folder.

    Raises:
        InputError: As `build_words`.
        TargetError: It failed; `stderr` has its output.
    """
    words = build_words(build)
    if not words:
        return
    done = _run(words, folder, BUILD_LIMIT_S)
    if done.returncode:
        raise TargetError(
            f"the build {build!r} exited with {done.returncode}",
            stderr=done.stdout.decode(errors="replace")[-2000:],
        )


def _git(*words: str, what: str) -> str:
    done = _run(["git", *words], Path(), 300.0)
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        reason = said.splitlines()[0] if said else "no such commit"
        raise InputError(f"git {words[0]} {what} failed: {reason}{_shallow_hint()}")
    return said


def _shallow_hint() -> str:
    """What to do if the repository around the working directory has only a part of its history."""
    done = _run(["git", "rev-parse", "--is-shallow-repository"], Path(), 300.0)
    if done.returncode or done.stdout.strip() != b"true":
        return ""
    return (
        ". This clone is shallow: fetch the whole history with `git fetch --unshallow`, or in a"
        " GitHub workflow with `fetch-depth: 0` of actions/checkout"
    )


def _run(words: Sequence[str], folder: Path, limit_s: float) -> subprocess.CompletedProcess[bytes]:
    # A hook that runs us has set these for its own repository.
    environment = {name: text for name, text in os.environ.items() if name not in OF_HOOKS}
    try:
        return subprocess.run(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
        )
    except OSError as error:
        raise TargetError(f"{words[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"{words[0]} took longer than {limit_s:g} s") from error
