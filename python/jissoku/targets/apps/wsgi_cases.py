"""A WSGI application with a behaviour for each conformance case, chosen by the field `Case`.

The cases are in jissoku/conformance/apps/wsgi.toml. Nothing here is clever: what a server makes of
it is what the cases are about.
"""

import gzip
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Environ = dict[str, Any]
Application = Callable[[Environ, Any], Iterable[bytes]]

TEXT = [("Content-Type", "text/plain")]
CASES: dict[str, Application] = {}
closed: list[str] = []
closed_files: list[Any] = []


def case(function: Application) -> Application:
    CASES[function.__name__] = function
    return function


# Cases that answer with a status, fields and a list of parts; several of them are wrong.
ANSWERS: dict[str, tuple[str, list[tuple[str, str]], Any]] = {
    "hello": ("200 OK", [*TEXT, ("Content-Length", "5")], [b"hello"]),
    "empty_chunk": ("200 OK", TEXT, [b"a", b"", b"b"]),
    "nothing": ("200 OK", TEXT, []),
    "injected_value": ("200 OK", [("X-A", "b\r\nX-Injected: yes")], [b"x"]),
    "injected_name": ("200 OK", [("X-Injected: yes\r\nX-A", "b")], [b"x"]),
    "injected_status": ("200 OK\r\nX-Injected: yes", [], [b"x"]),
    "too_long": ("200 OK", [("Content-Length", "3")], [b"abcdef"]),
    "too_short": ("200 OK", [("Content-Length", "9")], [b"abc"]),
    "not_bytes": ("200 OK", TEXT, ["text"]),
    "not_iterable": ("200 OK", TEXT, None),
    "reason": ("299 Custom Reason", [], [b"x"]),
    "not_latin1": ("200 OK", [("X-Name", "\u20ac")], [b"x"]),
    "no_content": ("204 No Content", [], [b"must not be sent"]),
    "not_modified": ("304 Not Modified", [("ETag", '"x"')], [b"must not be sent"]),
    "hop_by_hop": (
        "200 OK",
        [("Transfer-Encoding", "chunked"), ("Keep-Alive", "timeout=9")],
        [b"plain"],
    ),
    "closes": ("200 OK", [("Connection", "close"), *TEXT], [b"bye"]),
    "own_date": ("200 OK", [("Date", "Sun, 06 Nov 1994 08:49:37 GMT")], [b"x"]),
}


# Cases that send parts out of a generator, which also begins the response.
GENERATED: dict[str, tuple[list[tuple[str, str]], tuple[bytes, ...]]] = {
    "empty_generator": (TEXT, ()),
    "generator": (TEXT, (b"", b"one ", b"", b"two")),
    "too_long_parts": ([("Content-Length", "3")], (b"ab", b"cd", b"ef")),
}


def app(environ: Environ, start_response: Any) -> Any:
    name = environ["HTTP_CASE"]
    if name in GENERATED:
        return generated(start_response, *GENERATED[name])
    if name not in ANSWERS:
        return CASES[name](environ, start_response)
    status, fields, parts = ANSWERS[name]
    start_response(status, list(fields))
    return parts


def generated(
    start_response: Any, fields: list[tuple[str, str]], parts: Iterable[bytes]
) -> Iterator[bytes]:
    start_response("200 OK", list(fields))
    yield from parts


@case
def environ(environ: Environ, start_response: Any) -> Iterable[bytes]:
    seen = {name: value for name, value in environ.items() if isinstance(value, str | bool | tuple)}
    body = json.dumps(seen | {"type": type(environ).__name__}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@case
def calls(environ: Environ, start_response: Any) -> Iterable[bytes]:
    """What each reading method returns, one after the other: the query says which."""
    stream = environ["wsgi.input"]
    seen: list[Any] = []
    for call in environ["QUERY_STRING"].split("&"):
        name, _, size = call.partition("=")
        if name == "iter":
            seen.append(list(stream))
        else:
            seen.append(getattr(stream, name)(*[int(size)] if size else []))
    start_response("200 OK", TEXT)
    return [repr(seen).encode()]


@case
def echo(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return [environ["wsgi.input"].read()]


@case
def write(environ: Environ, start_response: Any) -> Iterable[bytes]:
    send = start_response("200 OK", TEXT)
    send(b"one ")
    send(b"two ")
    return [b"three"]


@case
def exc_info(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    try:
        int("no number")
    except ValueError:
        start_response("500 Oops", [("Content-Length", "4")], sys.exc_info())
    return [b"oops"]


@case
def exc_info_late(environ: Environ, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", TEXT)
    yield b"begun"
    try:
        int("no number")
    except ValueError:
        start_response("500 Oops", [], sys.exc_info())
    yield b"never"


@case
def twice(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    try:
        start_response("200 OK", TEXT)
    except AssertionError:
        return [b"refused"]
    return [b"allowed"]


@case
def fails(environ: Environ, start_response: Any) -> Iterable[bytes]:
    raise RuntimeError


@case
def fails_after_start(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("X-Begun", "yes")])
    raise RuntimeError


@case
def fails_midway(environ: Environ, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", TEXT)
    yield b"begun"
    raise RuntimeError


@case
def exits(environ: Environ, start_response: Any) -> Iterable[bytes]:
    sys.exit(3)


@case
def silent(environ: Environ, start_response: Any) -> Iterable[bytes]:
    return [b"no head"]


@case
def latin1(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("X-Name", "caf\xe9")])
    return [environ["HTTP_X_NAME"].encode("latin-1")]


class Closing:
    """An iterable that records its close()."""

    def __init__(self, name: str, chunks: Iterable[bytes]) -> None:
        self.name = name
        self.chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks

    def close(self) -> None:
        closed.append(self.name)


def failing() -> Iterator[bytes]:
    yield b"begun"
    raise RuntimeError


@case
def closing(environ: Environ, start_response: Any) -> Iterable[bytes]:
    """An iterable with a close(), whose name and kind come from the query."""
    name, _, kind = environ["QUERY_STRING"].partition("=")
    start_response("200 OK", TEXT)
    return Closing(name, failing() if kind == "fails" else [b"one", b"two"])


@case
def closed_names(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return [" ".join(closed).encode()]


@case
def file(environ: Environ, start_response: Any) -> Iterable[bytes]:
    found = io.BytesIO(b"0123456789")
    found.seek(2)
    start_response("200 OK", TEXT)
    wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](found, 3)
    return wrapped


class Recorded(io.FileIO):
    """A file that records its close(), and which may be read otherwise than its descriptor."""

    def close(self) -> None:
        if not self.closed:
            closed_files.append(self)
        super().close()


@case
def files(environ: Environ, start_response: Any) -> Iterable[bytes]:
    """A file of ten digits in the way the path names, with the length that the query names."""
    found: Any = tempfile.NamedTemporaryFile()  # noqa: SIM115 - the wrapper closes it
    found.write(b"0123456789")
    kind = environ["PATH_INFO"].strip("/")
    if kind == "compressed":
        found.seek(0)
        found.write(gzip.compress(b"0123456789"))
        found.flush()
        found = gzip.open(found.name)  # noqa: SIM115
    elif kind == "unbuffered":
        found.flush()
        found = open(found.name, "rb", buffering=0)  # noqa: PTH123, SIM115
    elif kind == "buffered":
        found.flush()
        found = open(found.name, "rb")  # noqa: PTH123, SIM115
        found.read(2)  # more than this is in the buffer now
    elif kind == "class":
        found.flush()
        found = Recorded(found.name)
    elif kind != "at_the_end":
        found.seek(4)
    length = environ["QUERY_STRING"]
    start_response("200 OK", [("Content-Length", length)] if length else [])
    wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](found)
    return wrapped


@case
def count_closed_files(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    count = str(len(closed_files)).encode()
    closed_files.clear()
    return [count]


LINK = ("Link", "</a.css>; rel=preload")


@case
def hint(environ: Environ, start_response: Any) -> Iterable[bytes]:
    """Early hints before and after start_response, of which the last has a forged field."""
    environ["wsgi.early_hints"]([LINK, ("Content-Length", "9")])
    start_response("200 OK", TEXT)
    environ["wsgi.early_hints"]([("X-Next", "yes")])
    try:
        environ["wsgi.early_hints"]([("X-A", "b\r\nX-Injected: yes")])
    except ValueError:
        return [b"refused"]
    return [b"allowed"]


@case
def hint_late(environ: Environ, start_response: Any) -> Iterator[bytes]:
    """Early hints while parts are awaited, and when the head is sent."""
    start_response("200 OK", TEXT)
    environ["wsgi.early_hints"]([LINK])
    yield b""
    environ["wsgi.early_hints"]([LINK])
    yield b"one "
    environ["wsgi.early_hints"]([LINK])
    yield b"two"


@case
def this_file(environ: Environ, start_response: Any) -> Iterable[bytes]:
    found = open(__file__, "rb")  # noqa: PTH123, SIM115 - the wrapper closes it
    found.seek(3)
    start_response("200 OK", TEXT)
    wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](found)
    return wrapped
