"""Commits that are built and started on the host of the targets."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jissoku.targets import command
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import PreparedTarget


class Build(Protocol):
    """A commit that was built, in a folder of its own."""

    def prepare(self, text: str) -> PreparedTarget:
        """Reads `NAME=COMMAND`, which is run in that folder; InputError as `from_command`."""


class Repository(Protocol):
    """A git repository on the host of the targets."""

    def commits(self, good: str, bad: str) -> tuple[str, tuple[str, ...]]:
        """The good commit, and those after it up to the bad one; see `commits_between`."""

    def subject(self, commit: str) -> str:
        """The first line of a commit's message."""

    def built(self, commit: str, build: str) -> AbstractContextManager[Build]:
        """A commit that is built by a command; TargetError if that fails."""


@dataclass(frozen=True, slots=True)
class LocalBuild:
    place: BuildPaths
    folder: Path

    def prepare(self, text: str) -> PreparedTarget:
        return command.from_command(text, self.place, self.folder)


class LocalRepository:
    """The one around the working directory."""

    def __init__(self, place: BuildPaths) -> None:
        """`place` has the folders of targets."""
        self._place = place

    def commits(self, good: str, bad: str) -> tuple[str, tuple[str, ...]]:
        first = command.resolve(good)
        return first, command.commits_between(first, command.resolve(bad))

    def subject(self, commit: str) -> str:
        return command.subject(commit)

    @contextmanager
    def built(self, commit: str, build: str) -> Iterator[LocalBuild]:
        with command.checkout(commit, build) as found:
            yield LocalBuild(self._place, found.folder)
