"""A worker that is replaced serves what its server has read, whatever has become of the files."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.c_handlers.reloading import CC, INCLUDE
from tests.serving.server_process import PATIENCE_S, Served, ask, spawn
from tests.serving.test_edge import make_papers, needs_openssl

pytestmark = pytest.mark.slow

REPLACED = "^jissoku serve: worker 0 has failed with its connections and was replaced: "
LISTENING = r"^listening on https?://127\.0\.0\.1:([0-9]+)/$"

HANDLER = """
#include <jissoku.h>
#include <unistd.h>

int jsk_handle(const jsk_api *js, jsk_request *r) {
    if (js->query(r, "exit").ptr != NULL)
        _exit(3);
    return js->printf(r, 200, "WORD");
}
"""

APP = """
import logging, os
def app(environ, start_response):
    if environ["QUERY_STRING"]:
        os._exit(3)
    start_response("200 OK", [])
    return [f"{os.environ['WORD']} {logging.getLogger().level}".encode()]
"""

ROUTES = """
[[route]]
path = "/fixed"
fixed = "first"
[[route]]
path = "/**"
"""


def write(folder: Path, code: str, fixed: str = "first", keys: str = "") -> Path:
    """A configuration with one route to the code, and one with a text."""
    file = folder / "serve.toml"
    routes = ROUTES.replace("first", fixed)
    file.write_text(f'listen = "127.0.0.1:0"\n{keys}{routes}{code}\n')
    return file


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[Served, int]]:
    variables = {"XDG_CACHE_HOME": str(folder / ".cache")}
    server = spawn("--config", str(folder / "serve.toml"), *arguments, **variables)
    try:
        yield server, int(server.wait_for(LISTENING)[1])
    finally:
        server.end()


def crash(server: Served, port: int, how: Callable[[int, str], object] = ask) -> None:
    """Ends the worker, and waits until another one is there."""
    with pytest.raises((OSError, EOFError)):
        how(port, "/?exit=1")
    server.wait_for(REPLACED)


@pytest.mark.parametrize("broken", ["workers = [", "no-such-key = 1", 'listen = "127.0.0.1:1"'])
def test_a_configuration_that_is_edited_does_not_matter(tmp_path: Path, broken: str) -> None:
    (tmp_path / "hello.c").write_text(HANDLER)
    configuration = write(tmp_path, 'handler = "hello.c"')
    with served(tmp_path) as (server, port):
        configuration.write_text(broken)
        crash(server, port)
        assert ask(port) == (200, b"WORD")
        assert ask(port, "/fixed") == (200, b"first")
        configuration.unlink()
        crash(server, port)
        assert ask(port, "/fixed") == (200, b"first")
        # A reload is for what is valid now, and what comes after it has that.
        write(tmp_path, 'handler = "hello.c"', "second")
        crash(server, port)
        assert ask(port, "/fixed") == (200, b"first")
        server.reload()
        configuration.write_text(broken)
        crash(server, port)
        assert ask(port, "/fixed") == (200, b"second")


def test_a_worker_that_has_served_enough_is_replaced_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text(HANDLER)
    configuration = write(tmp_path, 'handler = "hello.c"')
    with served(tmp_path, "--max-requests", "5") as (server, port):
        configuration.write_text("workers = [")
        for _ in range(5):
            assert ask(port) == (200, b"WORD")
        server.wait_for("^jissoku serve: worker 0 has served as many requests .* is replaced$")
        assert ask(port) == (200, b"WORD")


@pytest.mark.parametrize("kind", ["source", "shared object"])
@pytest.mark.parametrize("fate", ["changed", "removed"])
def test_the_code_in_service_stays(tmp_path: Path, kind: str, fate: str) -> None:
    source = tmp_path / "hello.c"
    source.write_text(HANDLER)
    library = tmp_path / "hello.so"

    def compile_library() -> None:
        made = tmp_path / "made.so"
        flags = ["-shared", "-fPIC", f"-I{INCLUDE}", "-o", str(made), str(source)]
        subprocess.run([CC, *flags], check=True)
        made.replace(library)

    file = source if kind == "source" else library
    if file == library:
        compile_library()
    write(tmp_path, f'handler = "{file.name}"')
    with served(tmp_path) as (server, port):
        source.write_text(HANDLER.replace("WORD", "another"))
        if fate == "removed":
            file.unlink()
        elif file == library:
            compile_library()
        # Of a source, this has what was compiled.
        shutil.rmtree(tmp_path / ".cache", ignore_errors=True)
        crash(server, port)
        assert ask(port) == (200, b"WORD")


def ask_securely(port: int, path: str, certificate: Path) -> bytes:
    """The body of a response of a server with exactly this certificate."""
    context = ssl.create_default_context(cafile=str(certificate))
    connection = HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        return connection.getresponse().read()
    finally:
        connection.close()


@needs_openssl
def test_other_files_of_an_application_do_not_matter_either(tmp_path: Path) -> None:
    """Variables, logging, a certificate and its key, and the authorities of an upstream."""
    (tmp_path / "there.py").write_text(APP)
    certificate, key = make_papers(tmp_path, "localhost")
    first = Path(shutil.copy(certificate, tmp_path / "first.crt"))
    authorities = Path(shutil.copy(certificate, tmp_path / "ca.pem"))
    variables, logging = tmp_path / "variables.env", tmp_path / "logging.json"
    variables.write_text("WORD=first\n")
    logging.write_text(json.dumps({"version": 1, "root": {"level": 7}}))
    keys = (
        f'app-dir = "."\nenv-file = "{variables.name}"\nlog-config = "{logging.name}"\n'
        f'tls-cert = "{certificate.name}"\ntls-key = "{key.name}"\n'
        '[[route]]\npath = "/far"\nto = "far"\n[upstream.far]\nprotocol = "https"\n'
        f'servers = ["127.0.0.1:1"]\ntls-ca = "{authorities.name}"\n'
    )
    write(tmp_path, 'app = "there:app"', keys=keys)

    def securely(port: int, path: str = "/") -> bytes:
        return ask_securely(port, path, first)

    with served(tmp_path) as (server, port):
        assert securely(port) == b"first 7"
        others = make_papers(tmp_path, "other")
        # A renewal that is half done.
        others[1].replace(key)
        variables.write_text("WORD second")
        logging.write_text("{")
        authorities.write_text("")
        crash(server, port, securely)
        assert securely(port) == b"first 7"
        for file in [certificate, key, variables, logging, authorities]:
            file.unlink()
        crash(server, port, securely)
        assert securely(port) == b"first 7"
