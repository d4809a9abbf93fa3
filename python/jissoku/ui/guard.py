"""Checks before every request, and headers after it, whatever the page.

Loopback does not protect from pages of other sites in the same browser: they can send requests
here (CSRF), and with a name that resolves to 127.0.0.1 read the answers too (DNS rebinding).
"""

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jissoku.ui.access import Access

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

# What is answered without a session: the exchange of the token, and files without a secret.
OPEN_PATHS = ("/enter", "/static/")
READING = {"GET", "HEAD"}
SESSION = "jissoku.session"


class Guard:
    """An ASGI application around the pages."""

    def __init__(self, app: ASGIApp, access: Access, *, is_read_only: bool = False) -> None:
        """Requests that `access` permits go to `app`; if it is read-only, GET and HEAD alone."""
        self._app = app
        self._access = access
        self._is_read_only = is_read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses the request in one sentence, or passes it on."""
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
        if scope["path"].startswith(OPEN_PATHS):
            return 0, ""
        session = _cookies(headers).get(self._access.cookie, "")
        if not self._access.is_known(session):
            return 403, "No session: open the link that `jissoku ui` has printed in the terminal."
        scope[SESSION] = session
        return 0, ""

    def _is_same_origin(self, headers: Headers) -> bool:
        """By Fetch Metadata; without it by Origin, which browsers send with every POST."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if origin is not None and origin not in self._access.origins:
            return False
        return site == "same-origin" if site is not None else origin is not None


def _cookies(headers: Headers) -> Mapping[str, str]:
    found: SimpleCookie = SimpleCookie()
    try:
        found.load(headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in found.items()}
