"""A command of the working directory against the same command of another commit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jissoku.errors import InputError
from jissoku.pipeline.progress import ProgressListener
from jissoku.pipeline.selection import build_paths
from jissoku.pipeline.trial_runner import PreparedArm
from jissoku.targets import command
from jissoku.targets.worktree import checkout, run_build

BASE = "base"


@contextmanager
def git_baseline(
    ref: str, commands: Sequence[str], build: str, listener: ProgressListener
) -> Iterator[PreparedArm]:
    """Builds the working directory and a ref, and prepares the ref's command as the arm `base`.

    Args:
        ref: A branch, tag or commit.
        commands: What `--cmd` was given: one `NAME=COMMAND`.
        build: Builds both, each in its own folder; empty: nothing is built.
        listener: Receives what is built.

    Raises:
        InputError: Not one command, no repository, or no such ref.
        TargetError: A build failed.
    """
    if len(commands) != 1:
        raise InputError("--baseline needs one command: --cmd 'head=./server --port {port}'")
    name, _, words = commands[0].partition("=")
    if name == BASE:
        raise InputError(f"--cmd {name}=...: {BASE!r} is the baseline's name, choose another")
    if build:
        listener.note(f"Building {name}: {build}.")
        run_build(build, command.HERE)
    listener.note(f"Building {BASE} from {ref}.")
    with checkout(ref, build) as found:
        prepared = command.from_command(f"{BASE}={words}", build_paths(), found.folder)
        listener.note(f"{BASE} is {found.commit[:12]}.")
        yield PreparedArm(prepared.arm(), prepared)
