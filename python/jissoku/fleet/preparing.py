"""The targets that an agent has prepared for a client, which names them by numbers.

They are of recipes, of commands if the operator allows these, and of servers that run already if
the operator has named them. A recipe is commands, too: one that is sent is taken if it is one of
the agent's own, or if commands are allowed.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import InputError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.permissions import Permissions
from jissoku.measure.host import build_paths
from jissoku.measure.sampler import with_names
from jissoku.model import Recipe, UnavailableTarget
from jissoku.system.address import listener_pid
from jissoku.targets import catalogue
from jissoku.targets.command import from_command, from_url, prepare_version
from jissoku.targets.prepare import PreparedTarget, prepare

# A client may ask for each recipe in several versions.
PREPARED_MAX = 1024

# The longest command, in characters.
COMMAND_MAX = 65_536

NO_SOCKET = "a Unix socket cannot be reached from another host"


class Preparations:
    """The agent's end of preparing; a number is valid for one session."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        # Those of this host, and those that the client has sent.
        self._recipes = dict(permissions.recipes)
        self._prepared: list[PreparedTarget] = []
        # Numbers of those whose runtime has names for a sampler.
        self.named: set[int] = set()

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """All that this session may name."""
        return self._recipes

    def answers(self) -> dict[type, Callable[[Any], msgspec.Struct]]:
        """What answers each request."""
        return {
            wire.Prepare: self._prepare,
            wire.PrepareCommand: self._prepare_command,
            wire.PrepareUrl: self._prepare_url,
            wire.PrepareNamed: self._prepare_named,
        }

    def target(self, number: int) -> PreparedTarget:
        """InputError if nothing has this number."""
        if not 0 <= number < len(self._prepared):
            raise InputError(f"nothing was prepared as number {number}")
        return self._prepared[number]

    def offered(self, found: PreparedTarget) -> wire.Prepared:
        """Describes a target for the client, which can start it by its handle from now on."""
        if len(self._prepared) >= PREPARED_MAX:
            raise InputError(f"{PREPARED_MAX} targets were prepared already")
        self._prepared.append(found)
        return wire.Prepared(
            handle=len(self._prepared) - 1,
            name=found.name,
            origin=found.origin,
            version=found.version,
            capabilities=tuple(sorted(found.capabilities)),
            description=found.description,
            limitations=found.limitations,
            binary_sha256=found.binary_sha256,
            source_sha256=found.source_sha256,
            start=found.start,
            config=found.config,
            compiles=found.compiles,
            program=Path(str(found.values.get("program", ""))).name,
        )

    def command(self, text: str, folder: Path = Path()) -> wire.PrepareResult:
        """A command that is allowed, in a folder of this host; by default the agent's."""
        if len(text) > COMMAND_MAX:
            raise InputError(f"a command has at most {COMMAND_MAX:,} characters")
        found = from_command(text, build_paths(), folder)
        if not found.listen.tcp:
            raise InputError(f"--cmd {found.name}: {NO_SOCKET}; write {{port}}")
        return wire.PrepareResult(prepared=self.offered(found))

    def _prepare(self, asked: wire.Prepare) -> wire.PrepareResult:
        recipe, place = self._recipe(asked), build_paths()
        if asked.version:
            found = prepare_version(recipe, asked.version, place)
        else:
            found = prepare(recipe, place)
        if isinstance(found, UnavailableTarget):
            return wire.PrepareResult(unavailable=found)
        return wire.PrepareResult(prepared=self.offered(found))

    def _recipe(self, asked: wire.Prepare) -> Recipe:
        sent = asked.sent
        if sent is None:
            return catalogue.get_recipe(self._recipes, asked.recipe)
        own = self._recipes.get(sent.name)
        if own == sent:
            return own
        if own is not None:
            raise InputError(f"it has another recipe {sent.name}: give yours another name")
        self._permissions.require_commands(
            f"it has no recipe {sent.name}, which `jissoku agent --recipes FOLDER` gives it; a"
            " recipe that is sent is commands"
        )
        catalogue.check(sent)
        self._recipes[sent.name] = sent
        return sent

    def _prepare_command(self, asked: wire.PrepareCommand) -> wire.PrepareResult:
        """A command, which is run in the folder in which the agent was started."""
        self._permissions.require_commands("it starts recipes only")
        return self.command(asked.text)

    def _prepare_url(self, asked: wire.PrepareUrl) -> wire.PrepareResult:
        """A server that runs; its process has to be visible, since it is what is observed."""
        address = self._permissions.server_at(asked.url)
        if listener_pid(address) is None:
            raise TargetError(
                f"no process that this agent may read listens at {address.url()}: start the server"
                " first, and the agent as its user"
            )
        found = from_url(f"{asked.name}={address.url()}")
        return wire.PrepareResult(prepared=self.offered(found))

    def _prepare_named(self, asked: wire.PrepareNamed) -> wire.PrepareResult:
        offered = self.offered(with_names(self.target(asked.prepared)))
        self.named.add(offered.handle)
        return wire.PrepareResult(prepared=offered)
