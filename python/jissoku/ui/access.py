"""Access to the pages: a one-time token, exchanged for a cookie and a key for forms."""

import secrets
from hmac import compare_digest

# Sessions of closed browsers remain, so the oldest is removed above this number.
SESSIONS_MAX = 32


class Access:
    """Tokens, sessions and addresses of one server.

    All are kept in memory: a new start invalidates them. `port` is set when the server listens.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        """Draws the first token. `address` is where the server listens, with brackets if IPv6."""
        self.port = 0
        self.address = address
        self.token = _secret()
        self._form_keys: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        """Name of the cookie. Cookies do not distinguish ports (RFC 6265 section 8.5)."""
        return f"jissoku-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Host fields under which the pages may be requested.

        Any other name leads here only by DNS rebinding: its pages would share our origin.
        """
        names = (self.address, "127.0.0.1", "localhost", "[::1]")
        return frozenset(f"{name}:{self.port}" for name in names)

    @property
    def origins(self) -> frozenset[str]:
        """Origin fields of our own pages."""
        return frozenset(f"http://{host}" for host in self.hosts)

    def enter(self, token: str) -> str | None:
        """Exchanges the token for a new session, and draws another token."""
        if not compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = _secret()
        session = _secret()
        self._form_keys[session] = _secret()
        while len(self._form_keys) > SESSIONS_MAX:
            del self._form_keys[next(iter(self._form_keys))]
        return session

    def is_known(self, session: str) -> bool:
        """Whether a cookie's value is a session."""
        return session in self._form_keys

    def form_key(self, session: str) -> str:
        """The value that only forms of our own pages contain."""
        return self._form_keys[session]

    def is_form_key(self, session: str, given: str) -> bool:
        """Whether a form contains its session's value."""
        return compare_digest(self._form_keys[session].encode(), given.encode())


def _secret() -> str:
    """256 bits."""
    return secrets.token_urlsafe(32)
