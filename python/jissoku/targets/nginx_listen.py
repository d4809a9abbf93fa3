"""Adds a parameter to the listen addresses of an nginx configuration, once to each.

Several servers may share an address; then nginx takes the socket's parameters from one of their
listen directives, and refuses a second that has any ("duplicate listen options").
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from jissoku.model import KnobChange
from jissoku.targets.nginx_config import Configuration, Directive, Edit
from jissoku.targets.nginx_text import extended

# Parameters of the socket (ngx_http_core_module), as opposed to those of its protocol.
OF_SOCKET = (
    "accept_filter=",
    "backlog=",
    "bind",
    "deferred",
    "fastopen=",
    "ipv6only=",
    "rcvbuf=",
    "reuseport",
    "setfib=",
    "so_keepalive=",
    "sndbuf=",
)
EVERYWHERE = ("*", "0.0.0.0")  # noqa: S104 - read, and never bound to
PORT = "80"


def addresses(configuration: Configuration) -> Mapping[str, Sequence[Directive]]:
    """The listen directives of each TCP address."""
    found: dict[str, list[Directive]] = defaultdict(list)
    for above, directive in configuration.walk():
        is_http = bool(above) and above[0].name == "http"
        if directive.name != "listen" or not is_http or not directive.words:
            continue
        if directive.words[0].startswith("unix:") or "quic" in directive.words:
            continue
        found[_address(directive.words[0])].append(directive)
    return found


def add_listen_parameter(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Adds a parameter to every address without it, next to other parameters of the socket."""
    for directives in addresses(configuration).values():
        if any(change.value in one.words for one in directives):
            continue
        # A line that is included in two servers would set the parameter twice.
        often = Counter((one.file, one.start) for one in directives)
        single = [one for one in directives if often[one.file, one.start] == 1]
        chosen = [one for one in directives if _sets_socket(one)] or single
        if chosen and chosen[0] in single:
            yield extended(configuration, chosen[0], change.value)


def _address(word: str) -> str:
    """An address as nginx reads it: a bare number is a port, a bare host has port 80."""
    if word.isdigit():
        return f"*:{word}"
    host, colon, port = word.rpartition(":")
    if not colon or word.endswith("]"):
        host, port = word, PORT
    return f"{'*' if host in EVERYWHERE else host}:{port}"


def _sets_socket(directive: Directive) -> bool:
    return any(word.startswith(OF_SOCKET) for word in directive.words[1:])
