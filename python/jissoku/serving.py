"""Serving an application from code: `jissoku.run` and `jissoku.serve_in_thread`.

The server is that of `jissoku serve`; see docs/apps.md. The laboratory does not use this module.
"""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Application = Callable[..., Any]

_BODY_SIZE_MAX = 1 << 30

Option = str | float | bool | Iterable[str] | None


def run(app: Application | str, **options: Option) -> None:
    """Serves `app` until SIGTERM or SIGINT, as `jissoku serve` does. Call it in the main thread.

    Args:
        app: The application, or its name as `MODULE:APP`, which is imported by the workers. An
            object is served by this process; a reload, and each of several workers, runs this
            program again up to this call.
        options: The flags of `jissoku serve` with underscores, such as `listen="0.0.0.0:8000"`,
            `workers=4` or `pin=True`; those that may be repeated take a list. `None` and `False`
            are left out.

    Raises:
        SystemExit: It has failed; the reason is on standard error. The code is 2 if an option or
            the application is invalid, and else 1.
    """
    from jissoku import _native  # noqa: PLC0415 - the laboratory imports the package without it

    arguments = [argument for name, value in options.items() for argument in flag(name, value)]
    before = signal.getsignal(signal.SIGINT)
    # The server stops after SIGINT; the exception of Python's own handler would come in its way. A
    # handler that the program has installed is called as well.
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if isinstance(app, str):
            code = _native.run(["jissoku", "serve", *arguments, app])
        else:
            code = _native.run_app(app, ["jissoku", "serve", *arguments, "object:app"])
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        sys.exit(code)


def flag(name: str, value: Option) -> Iterator[str]:
    """The words of an option of the command line, from a parameter with underscores."""
    word = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return
    if value is True:
        yield word
    elif isinstance(value, str | int | float):
        yield f"{word}={value}"
    else:
        for item in value:
            yield f"{word}={item}"


@dataclass(frozen=True)
class LiveServer:
    """A server in a thread of this process.

    Attributes:
        host: Its address.
        port: Its port.
    """

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its address as a URL, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@contextmanager
def serve_in_thread(
    app: Application, *, listen: str = "127.0.0.1:0", body_size_max: int = _BODY_SIZE_MAX
) -> Iterator[LiveServer]:
    """Serves `app` in a thread until the end of the block: for tests of applications.

    Requests are answered one at a time, while this thread waits for the network. The block ends
    when the requests in flight are answered. Signals are not touched.

    Args:
        app: The application.
        listen: Address and port; port 0 selects a free port.
        body_size_max: Maximum size of a request body in bytes.

    Raises:
        OSError: It cannot listen there, or the startup of an ASGI application has failed.
        TypeError: `app` is no application that can be served.
    """
    from jissoku import _native  # noqa: PLC0415 - the laboratory imports the package without it

    server = _native.ThreadServer(app, listen, body_size_max)
    try:
        yield LiveServer(*server.address)
    finally:
        server.stop()
