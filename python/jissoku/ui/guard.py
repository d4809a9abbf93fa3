"""Checks before every request, and headers after it, whatever the page.

Loopback does not protect from pages of other sites in the same browser: they can send requests
here (CSRF), and with a name that resolves to 127.0.0.1 read the answers too (DNS rebinding).
"""

import secrets
from hmac import compare_digest

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Sessions of closed browsers remain, so the oldest is removed above this number.
SESSIONS_MAX = 32


class Access:
    """Tokens, sessions and addresses of one server.

    All are kept in memory: a new start invalidates them. `port` is set when the server listens.
    Only forms of our own pages contain the form key of their session.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        """`address` is where the server listens, with brackets if IPv6."""
        self.port = 0
        self.address = address
        self.token = _secret()
        self.form_keys: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        """Cookies do not distinguish ports (RFC 6265 section 8.5)."""
        return f"jissoku-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Any other name leads here only by DNS rebinding: its pages would share our origin."""
        names = (self.address, "127.0.0.1", "localhost", "[::1]")
        return frozenset(f"{name}:{self.port}" for name in names)

    def enter(self, token: str) -> str | None:
        """Exchanges the token for a new session, and draws another token."""
        if not compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = _secret()
        session = _secret()
        self.form_keys[session] = _secret()
        while len(self.form_keys) > SESSIONS_MAX:
            del self.form_keys[next(iter(self.form_keys))]
        return session


def _secret() -> str:
    return secrets.token_urlsafe(32)  # 256 bits


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # With `no-referrer` browsers would send `Origin: null` with our own forms (Fetch, section 3.2).
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

READING = {"GET", "HEAD"}
SESSION = "jissoku.session"


class Guard:
    def __init__(self, app: ASGIApp, access: Access, *, is_read_only: bool = False) -> None:
        """Requests that `access` permits go to `app`; if it is read-only, GET and HEAD alone."""
        self._app = app
        self._access = access
        self._is_read_only = is_read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        status, reason = self._refusal(scope)
        if status:
            refusal = PlainTextResponse(f"{reason}\n", status)
            await refusal(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str]:
        """A status and a sentence; 0 if the request is permitted."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._access.hosts:
            names = ", ".join(sorted(self._access.hosts))
            return 421, f"This server answers only as one of {names}."
        if scope["method"] not in READING:
            if self._is_read_only:
                return 403, "These pages are read-only: nothing is started or changed here."
            if not self._is_same_origin(headers):
                return 403, "The request comes from another site: use the form of this page."
        # The exchange of the token, and files without a secret, need no session.
        if scope["path"].startswith(("/enter", "/static/")):
            return 0, ""
        session = HTTPConnection(scope).cookies.get(self._access.cookie, "")
        if session not in self._access.form_keys:
            return (403, "No session: `jissoku ui` in a terminal prints a link to these pages.")
        scope[SESSION] = session
        return 0, ""

    def _is_same_origin(self, headers: Headers) -> bool:
        """By Fetch Metadata; without it by Origin, which browsers send with every POST."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if origin is not None and origin not in {f"http://{one}" for one in self._access.hosts}:
            return False
        return site == "same-origin" if site is not None else origin is not None
