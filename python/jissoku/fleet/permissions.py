"""What the operator of an agent lets its clients use, beside the recipes of the installation."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jissoku.errors import InputError
from jissoku.model import Recipe
from jissoku.system.address import Address, parse
from jissoku.targets import catalogue

# What a refusal ends with.
ALLOWED = (
    "with `jissoku agent --allow-commands` its operator lets clients run any command there, as the"
    " agent's user"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """`commands`: any program, also as a recipe, a change or a commit. `urls`: servers that run.

    `recipes` are those of the agent's host, by their names. `load_to`: addresses to which load may
    be sent from that host.
    """

    commands: bool = False
    urls: tuple[Address, ...] = ()
    recipes: Mapping[str, Recipe] = field(default_factory=catalogue.recipes)
    load_to: frozenset[str] = frozenset()

    def require_commands(self, what: str) -> None:
        """InputError unless commands are allowed; `what` begins the sentence."""
        if not self.commands:
            raise InputError(f"{what}: {ALLOWED}")

    def server_at(self, url: str) -> Address:
        """The address of a URL that the operator has named; InputError for any other."""
        address = resolved(url)
        if address not in self.urls:
            raise InputError(
                f"it observes a server that it has not started only if its operator names it:"
                f" `jissoku agent --allow-url {address.url()}`"
            )
        return address


def addresses_of(host: str) -> set[str]:
    """The IP addresses of a host to which load may be sent."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise InputError(f"--load-to {host}: {error.strerror}") from error


def resolved(url: str) -> Address:
    """The address of a URL with an IP address in place of a name; InputError if it is none."""
    address = parse(url)
    if address.socket:
        raise InputError(f"{url!r}: a Unix socket cannot be reached from another host")
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"{url!r}: {address.host} is unknown there: {error.strerror}") from error
    hosts = [str(one[4][0]) for one in found]
    return replace(address, host=next((one for one in hosts if ":" not in one), hosts[0]))
