"""A user's own configuration as a target."""

from collections.abc import Iterable
from pathlib import Path

from jissoku.model import ConfigFile, ListenArguments, Origin, StartCommand
from jissoku.model.updated import updated
from jissoku.system.address import Address
from jissoku.targets.listen_address import ListenAddress
from jissoku.targets.prepare import PreparedTarget


def of_user(  # noqa: PLR0913 - each is a property of the program
    base: PreparedTarget,
    name: str,
    *,
    chosen: ListenAddress,
    command: Iterable[str],
    unix: str,
    config: Iterable[ConfigFile],
    upstreams: tuple[Address, ...],
    folder: Path | None = None,
) -> PreparedTarget:
    """A program that runs a user's configuration, as it was moved into the lab.

    Args:
        base: The program as prepared from its recipe: gives version and hash.
        command: Starts it; has placeholders.
        unix: How the program writes the address of a Unix socket.
        upstreams: Servers that it forwards to.
        folder: Where the command is run; None: in the folder of the start.
    """
    return updated(
        base,
        name=name,
        origin=Origin.COMMAND,
        capabilities=frozenset(),
        compiles=False,
        is_tls=chosen.is_tls,
        description="The user's own configuration; its first response is taken as the expected"
        " one.",
        limitations="",
        start=StartCommand(command=tuple(command)),
        listen=ListenArguments(tcp=("127.0.0.1:{port}",), unix=(unix,)),
        config=tuple(config),
        folder=folder,
        user_upstreams=upstreams,
    )
