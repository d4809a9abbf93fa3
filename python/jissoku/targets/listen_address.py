"""Which of the addresses of a user's configuration receives the requests."""

from collections.abc import Mapping
from dataclasses import dataclass

from jissoku.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """The address that receives the requests; all others become unused Unix sockets.

    Attributes:
        address: As written in the configuration.
        redirects: All that its server does is to send clients elsewhere, such as to https.
    """

    address: str
    is_tls: bool = False
    redirects: bool = False


def choose(found: Mapping[str, ListenAddress], wanted: str, where: object) -> ListenAddress:
    """The first address that does not only redirect, rather without TLS; or the one wanted.

    Raises:
        InputError: There is none, or not the one wanted.
    """
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
