"""Servers of handlers in C for the tests, ended when a test is."""

import queue
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S, Served, UnixConnection, spawn
from tests.serving.test_edge import make_papers, needs_openssl

SOURCES = Path(__file__).parent / "sources"

HELLO = """
#include <jissoku.h>

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str name = js->query(r, "name");
    js->header(r, "Content-Type", "text/plain");
    return js->printf(r, 200, "Hello, %.*s!", JSK_ARG(name));
}
"""


def start(file: Path, *arguments: str, **variables: str) -> Served:
    """Starts a server of a handler, whose cache is beside the file."""
    cache = {"XDG_CACHE_HOME": str(file.parent / ".cache")}
    return spawn(str(file), "--listen", "127.0.0.1:0", *arguments, **cache, **variables)


@contextmanager
def served(file: Path, *arguments: str, **variables: str) -> Iterator[tuple[Served, int]]:
    """A server of a handler, and its port."""
    server = start(file, *arguments, **variables)
    try:
        yield server, port_of(server)
    finally:
        server.end()


def port_of(server: Served) -> int:
    """Waits until it listens."""
    return int(server.wait_for(r"^listening on https?://127\.0\.0\.1:([0-9]+)/$")[1])


# Plain text and TLS, for fixtures of sites; `site_of` knows the kind "unix", too.
KINDS = ["plain", pytest.param("tls", marks=needs_openssl)]


@dataclass(frozen=True)
class Site:
    """A server of a handler, in plain text, with TLS or at a Unix socket."""

    server: Served
    port: int
    folder: Path
    context: ssl.SSLContext | None
    socket: Path | None = None

    def connect(self) -> HTTPConnection:
        """A connection."""
        if self.socket is not None:
            return UnixConnection(self.socket)
        if self.context is None:
            return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return HTTPSConnection("localhost", self.port, timeout=PATIENCE_S, context=self.context)

    def ask(self, target: str, method: str = "GET") -> tuple[int, bytes, str | None]:
        """Status, body and Content-Length of one response."""
        connection = self.connect()
        try:
            connection.request(method, target)
            response = connection.getresponse()
            return response.status, response.read(), response.headers["Content-Length"]
        finally:
            connection.close()


def received_until(connection: HTTPConnection, end: bytes) -> bytes:
    """What comes up to these bytes and with them."""
    received = b""
    while not received.endswith(end):
        part = connection.sock.recv(4096)
        assert part, received
        received += part
    return received


@contextmanager
def site_of(
    source: str, folder: Path, request: pytest.FixtureRequest, *arguments: str
) -> Iterator[Site]:
    """A server of one of the sources, compiled in the folder, for a fixture with one of `KINDS`."""
    file = Path(shutil.copy(SOURCES / source, folder))
    if request.param == "unix":
        place = folder / "site.sock"
        listen = ["--listen", f"unix:{place}"]
        with served_as_asked(file, request.config, *listen, *arguments) as (server, port):
            server.wait_for("^listening on unix:")
            yield Site(server, port, folder, None, place)
        return
    if request.param == "plain":
        with served_as_asked(file, request.config, *arguments) as (server, port):
            yield Site(server, port, folder, None)
        return
    certificate, key = make_papers(folder, "localhost")
    papers = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    with served_as_asked(file, request.config, *papers, *arguments) as (server, port):
        context = ssl.create_default_context(cafile=str(certificate))
        yield Site(server, port, folder, context)


def write(folder: Path, text: str, name: str = "hello.c") -> Path:
    """A source."""
    source = folder / name
    source.write_text(text)
    return source


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """A sanitizer of the C compiler; the server is compiled without it.

    Attributes:
        flags: For the compiler.
        library: The server loads it before all others.
        variables: What the library reads.
    """

    flags: str
    library: str
    variables: dict[str, str]


# A leak is none of handlers: an interpreter that is ended leaves what it has. Both the library and
# Rust's would free the signal stack of a thread. ThreadSanitizer does not see how threads of the
# server synchronise, which is compiled without it.
SANITIZERS = {
    "address": Sanitizer(
        "-g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined",
        "libasan.so",
        {"ASAN_OPTIONS": "detect_leaks=0:use_sigaltstack=0"},
    ),
    "thread": Sanitizer(
        "-g -fno-omit-frame-pointer -fsanitize=thread",
        "libtsan.so",
        {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"},
    ),
}
REPORT = re.compile(r"ERROR: AddressSanitizer|runtime error: |WARNING: ThreadSanitizer")


def library_of(sanitizer: Sanitizer) -> str:
    """The path of its library; skips the test if there is none that a program can run with."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    question = [compiler, f"-print-file-name={sanitizer.library}"]
    library = subprocess.run(question, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip(f"the C compiler has no {sanitizer.library}")
    variables = {**sanitizer.variables, "LD_PRELOAD": library}
    trial = [sys.executable, "-c", ""]
    tried = subprocess.run(trial, env=variables, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"{sanitizer.library} does not run here: {tried.stderr}")
    return library


@contextmanager
def sanitized(file: Path, sanitizer: Sanitizer, *arguments: str) -> Iterator[tuple[Served, int]]:
    """A server of a handler that is compiled with a sanitizer, and its port."""
    flags, variables = sanitizing(sanitizer)
    with served(file, *flags, *arguments, **variables) as found:
        yield found


def sanitizing(sanitizer: Sanitizer | None) -> tuple[list[str], dict[str, str]]:
    """The flags and variables of a server whose handler a sanitizer checks; none without one."""
    if sanitizer is None:
        return [], {}
    variables = {
        **sanitizer.variables,
        "LD_PRELOAD": library_of(sanitizer),
        # The compiler itself runs without the library.
        "CC": "env -u LD_PRELOAD cc",
    }
    return [f"--cflags={sanitizer.flags}"], variables


def asked_sanitizer(config: pytest.Config) -> Sanitizer | None:
    """That of `--sanitizer`."""
    name = config.getoption("--sanitizer")
    return None if name is None else SANITIZERS[name]


@contextmanager
def served_as_asked(
    file: Path, config: pytest.Config, *arguments: str
) -> Iterator[tuple[Served, int]]:
    """A server of a handler, with the sanitizer of `--sanitizer`, which must report nothing."""
    flags, variables = sanitizing(asked_sanitizer(config))
    with served(file, *flags, *arguments, **variables) as found:
        yield found
    check_reports(found[0])


def check_reports(server: Served) -> None:
    """No sanitizer has reported anything of a server that has ended."""
    lines = all_lines(server)
    assert not any(map(REPORT.search, lines)), "\n".join(lines)


def all_lines(server: Served) -> list[str]:
    """What a server has printed that has ended."""
    lines = list(server.seen)
    while True:
        try:
            lines.append(server.lines.get_nowait())
        except queue.Empty:
            return lines


@pytest.fixture(scope="module")
def cases_port(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[int]:
    """The port of a server of the handler of the cases."""
    folder = tmp_path_factory.mktemp("cases")
    source = shutil.copy(SOURCES / "cases.c", folder)
    with served_as_asked(Path(source), pytestconfig) as (_, port):
        yield port
