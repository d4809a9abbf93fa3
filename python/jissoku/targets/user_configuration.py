"""A user's own configuration as a target: its text, its address, and the servers behind it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import ConfigFile, ListenArguments, Origin, StartCommand, updated
from jissoku.system.address import HOST, Address
from jissoku.targets.prepare import PreparedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """The address that receives the requests, as written; others become unused Unix sockets.

    `redirects`: its server only sends clients elsewhere, such as to https.
    """

    address: str
    is_tls: bool = False
    redirects: bool = False


def choose(found: Mapping[str, ListenAddress], wanted: str, where: object) -> ListenAddress:
    """The first address that does not only redirect, rather without TLS; or the one wanted."""
    if wanted and wanted not in found:
        addresses = ", ".join(found) or "none"
        raise InputError(f"no server listens at {wanted!r}; there are: {addresses}")
    if wanted:
        return found[wanted]
    if not found:
        raise InputError(
            f"{where}: no server listens with HTTP/1.1 over TCP; addresses with QUIC or the PROXY"
            " protocol cannot be tuned"
        )
    # `min` keeps the order of those that are alike.
    return min(found.values(), key=lambda one: (one.redirects, one.is_tls))


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

    Version and hash are those of `base`. `command` has placeholders; it is run in `folder`, or
    else in that of the start. `unix` is how the program writes the address of a Unix socket.
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


# The servers that a user's configuration forwards to, as far as it names them by address. They run
# as the user started them. The lab needs to know their processes only: their CPU time is neither
# the proxy's nor that of foreign programs. Names that only the proxy can resolve, and addresses
# with variables, are left out.


_HOST_AND_PORT = re.compile(r"^(\[[0-9a-fA-F:]+\]|[\w.-]+)(?::(\d+))?$")


def tcp_address(text: str, default_port: int = 0) -> Address | None:
    found = _HOST_AND_PORT.match(text)
    port = int(found[2] or default_port) if found else 0
    if found is None or not 0 < port < 1 << 16:
        return None
    host = found[1].strip("[]")
    # All processes of one machine are looked at by port, so its names are one address.
    return Address(host=HOST if host == "localhost" else host, port=port)
