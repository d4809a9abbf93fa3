"""Commits of a repository on another host: both ends of the connection.

The repository is the one in whose folder the agent was started. A build and a commit's server are
commands, so all of this needs that the operator allows commands.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import msgspec

from jissoku.errors import HostLost, InputError
from jissoku.fleet import wire
from jissoku.fleet.inspection import Ask
from jissoku.fleet.permissions import Permissions
from jissoku.fleet.preparing import Preparations
from jissoku.targets import command
from jissoku.targets.command import BUILD_LIMIT_S, GIT_LIMIT_S
from jissoku.targets.prepare import PreparedTarget

# Builds that exist at once: a search compares two.
CHECKOUTS_MAX = 8

REFUSED = "it builds and starts no commits"

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class Checkouts:
    """The agent's end: the builds of a session, which `close` removes."""

    def __init__(self, permissions: Permissions, preparations: Preparations) -> None:
        self._permissions = permissions
        self._preparations = preparations
        self._built: dict[int, tuple[command.Checkout, ExitStack]] = {}
        self._count = 0

    def answers(self) -> dict[type, Callable[[Any], msgspec.Struct]]:
        """What answers each request."""
        return {
            wire.AskCommits: self._commits,
            wire.BeginCheckout: self._begin,
            wire.PrepareCheckout: self._prepare,
            wire.EndCheckout: self._end,
        }

    def close(self) -> None:
        for _, held in self._built.values():
            held.close()
        self._built = {}

    def _commits(self, asked: wire.AskCommits) -> wire.Commits:
        self._permissions.require_commands(REFUSED)
        good = command.resolve(asked.good)
        found = command.commits_between(good, command.resolve(asked.bad))
        subjects = command.subjects(good, found[-1] if found else good)
        return wire.Commits(good=good, commits=found, subjects=subjects)

    def _begin(self, asked: wire.BeginCheckout) -> wire.CheckoutNumber:
        self._permissions.require_commands(REFUSED)
        if not COMMIT.fullmatch(asked.commit):
            raise InputError(f"{asked.commit!r} is no name of a commit")
        if len(self._built) >= CHECKOUTS_MAX:
            raise InputError(f"{CHECKOUTS_MAX} commits are built already")
        with ExitStack() as held:
            found = held.enter_context(command.checkout(asked.commit, asked.build))
            self._count += 1
            self._built[self._count] = found, held.pop_all()
        return wire.CheckoutNumber(number=self._count)

    def _prepare(self, asked: wire.PrepareCheckout) -> wire.PrepareResult:
        """The command of a commit, which is run in the folder of its build."""
        if asked.number not in self._built:
            raise InputError(f"no commit was built as number {asked.number}")
        found, _ = self._built[asked.number]
        return self._preparations.command(asked.text, found.folder)

    def _end(self, asked: wire.EndCheckout) -> wire.Answer:
        _, held = self._built.pop(asked.number, (None, ExitStack()))
        held.close()
        return wire.Answer(is_true=True)


class RemoteBuild:
    """A commit that the agent has built; see `measure.repository.Build`."""

    def __init__(
        self, ask: Ask, known: Callable[[wire.PrepareResult], PreparedTarget], number: int
    ) -> None:
        """`known` makes a target of what the agent has prepared."""
        self._ask = ask
        self._known = known
        self._number = number

    def prepare(self, text: str) -> PreparedTarget:
        asked = wire.PrepareCheckout(number=self._number, text=text)
        return self._known(self._ask(asked, wire.PrepareResult))


class RemoteRepository:
    """The client's end: the repository of the agent's folder."""

    def __init__(self, ask: Ask, known: Callable[[wire.PrepareResult], PreparedTarget]) -> None:
        self._ask = ask
        self._known = known
        self._subjects: dict[str, str] = {}

    def commits(self, good: str, bad: str) -> tuple[str, tuple[str, ...]]:
        asked = wire.AskCommits(good=good, bad=bad)
        found = self._ask(asked, wire.Commits, GIT_LIMIT_S)
        self._subjects = found.subjects
        return found.good, found.commits

    def subject(self, commit: str) -> str:
        return self._subjects.get(commit, "")

    @contextmanager
    def built(self, commit: str, build: str) -> Iterator[RemoteBuild]:
        asked = wire.BeginCheckout(commit=commit, build=build)
        found = self._ask(asked, wire.CheckoutNumber, BUILD_LIMIT_S + GIT_LIMIT_S)
        try:
            yield RemoteBuild(self._ask, self._known, found.number)
        finally:
            with suppress(HostLost):  # The agent removes it with the session.
                self._ask(wire.EndCheckout(number=found.number), wire.Answer, GIT_LIMIT_S)
