"""A command of the working directory, and the same command of another commit or release."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from jissoku.errors import InputError
from jissoku.pipeline.progress import ProgressListener
from jissoku.pipeline.selection import build_paths
from jissoku.pipeline.trial_runner import PreparedArm
from jissoku.targets import command
from jissoku.targets.release import check_release, from_release, is_release
from jissoku.targets.worktree import build_words, checkout, resolve, run_build

BASE = "base"

# No git ref begins so (git-check-ref-format(1)).
PATH_BEGINS = (".", "/")


def check_ref(given: str) -> None:
    """Refuses a baseline that is neither a release nor a commit, before anything is built.

    Raises:
        InputError: It is neither; of a path the message says that it is no run either.
    """
    if is_release(given):
        check_release(given)
        return
    if given.startswith(PATH_BEGINS):
        raise InputError(_no_run(given))
    try:
        resolve(given)
    except InputError as error:
        # A branch may have a slash in its name, too.
        if "/" in given or Path(given).is_dir():
            raise InputError(f"{_no_run(given)}, and it is no commit: {error}") from error
        raise


def check_commands(commands: Sequence[str], build: str) -> None:
    """Refuses commands that cannot be measured with a baseline, before anything is built.

    Raises:
        InputError: Not one command, or it or the build is malformed.
    """
    _head(commands)
    command.read_command(*commands)
    build_words(build)


def _no_run(folder: str) -> str:
    missing = "it has no run.json" if Path(folder).is_dir() else "there is no such folder"
    return f"--baseline {folder} is not the folder of a run: {missing}"


def baseline(
    given: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> AbstractContextManager[PreparedArm]:
    """The arm `base` of a release if `given` is one, else of a git ref."""
    prepare = release_baseline if is_release(given) else git_baseline
    return prepare(given, commands, build, listener)


@contextmanager
def git_baseline(
    ref: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> Iterator[PreparedArm]:
    """Builds the working directory and a ref, and prepares the ref's command as the arm `base`.

    Args:
        ref: A branch, tag or commit.
        commands: The values of `--cmd`: one `NAME=COMMAND`.
        build: Builds both, each in its own folder; empty: nothing is built.
        listener: Receives a note about each build.

    Raises:
        InputError: Not one command, no repository, or no such ref.
        TargetError: A build failed.
    """
    name, words = _head(commands)
    if build:
        listener.note(f"Building {name}: {build}.")
        run_build(build, command.HERE)
    listener.note(f"Building {BASE} from {ref}.")
    with checkout(ref, build) as found:
        prepared = command.from_command(f"{BASE}={words}", build_paths(), found.folder)
        listener.note(f"{BASE} is {found.commit[:12]}.")
        yield PreparedArm(prepared.arm(), prepared)


@contextmanager
def release_baseline(
    release: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> Iterator[PreparedArm]:
    """Installs a released Python package, and prepares the command with it as the arm `base`.

    Args:
        release: A wheel's path, or `PACKAGE==VERSION`.
        commands: The values of `--cmd`: one `NAME=COMMAND`.
        build: Builds the working directory; empty: nothing is built.
        listener: Receives a note about each step.

    Raises:
        InputError: Not one command, or no such wheel.
        TargetError: The build failed, or the release cannot be installed.
    """
    name, words = _head(commands)
    if build:
        listener.note(f"Building {name}: {build}.")
        run_build(build, command.HERE)
    listener.note(f"Installing {BASE}: {Path(release).name}.")
    prepared = from_release(f"{BASE}={words}", release, build_paths())
    yield PreparedArm(prepared.arm(), prepared)


def _head(commands: Sequence[str]) -> tuple[str, str]:
    """Name and command of the working directory's arm."""
    if len(commands) != 1:
        raise InputError("--baseline needs one command: --cmd 'head=./server --port {port}'")
    name, _, words = commands[0].partition("=")
    if name == BASE:
        raise InputError(f"--cmd {name}=...: {BASE!r} is the baseline's name, choose another")
    return name, words
