"""The handlers of docs/handlers.md, as the document builds them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.c_handlers.conftest import port_of, served, write
from tests.serving.server_process import ask, connect, spawn

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "crates" / "jissoku-handlers" / "include"
EXAMPLES = ROOT / "docs" / "examples"
TEXT = (ROOT / "docs" / "handlers.md").read_text()

pytestmark = pytest.mark.slow


def example(language: str, word: str = "Hello, ") -> str:
    """The program of a language in the document that contains a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (program,) = (block for block in blocks if word in block)
    return str(program)


def build(folder: Path, command: list[str], **variables: str) -> str:
    """Runs a command of a compiler, and returns what it prints on standard output."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(file: Path) -> None:
    """A handler that greets is served, by two workers."""
    with served(file, "--workers", "2") as (_, port):
        for _ in range(20):
            assert ask(port, "/?name=J%C3%BCrgen") == (200, "Hello, J\u00fcrgen!".encode())
        assert ask(port) == (200, b"Hello, !")


@pytest.mark.parametrize(("language", "compiler"), [("c", "cc"), ("cpp", "c++")])
def test_c_and_cpp(tmp_path: Path, language: str, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    check(write(tmp_path, example(language), f"hello.{language}"))


def test_the_url_shortener(tmp_path: Path) -> None:
    write(tmp_path, example("c", "shorten("), "shortener.c")
    configuration = write(tmp_path, example("toml", "shortener.c"), "shortener.toml")
    flags = ["--config", str(configuration), "--listen", "127.0.0.1:0", "--cflags=-Werror"]
    server = spawn(*flags, XDG_CACHE_HOME=str(tmp_path / ".cache"))

    def ask_for(method: str, path: str, url: str = "") -> tuple[int, str | None, str]:
        """Status, Location and body."""
        with closing(connect(port)) as connection:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request(method, path, urlencode({"url": url}) if url else None, form)
            response = connection.getresponse()
            return response.status, response.headers["Location"], response.read().decode()

    try:
        port = port_of(server)
        url = "https://example.org/?a=1&b=2"
        status, _, path = ask_for("POST", "/", url)
        assert status == 201
        assert re.fullmatch("/[a-z2-7]{8}\n", path)
        assert ask_for("POST", "/", url)[2] != path
        assert ask_for("GET", path.strip()) == (302, url, "")
        assert ask_for("POST", "/", "ftp://example.org/")[0] == 400
        # No field is split by what a client has put into the store.
        status, _, path = ask_for("POST", "/", "http://x\r\nA: b")
        assert (status, ask_for("GET", path.strip())[0]) == (201, 500)
        assert [ask_for("GET", path)[0] for path in ("/", "/none")] == [404, 404]
        refused = "a key has 1 to 500 bytes, and this one 501\n"
        assert ask_for("GET", "/" + "k" * 501) == (400, None, refused)
    finally:
        server.end()


def test_rust_is_the_example_of_the_crate() -> None:
    """The crate's example is built by another test."""
    crate = ROOT / "crates" / "jissoku-handler"
    assert (crate / "examples" / "hello.rs").read_text().partition("\n\n")[2] == example("rust")


@pytest.mark.timeout(900)
def test_zig(tmp_path: Path) -> None:
    """Zig compiles its translator of C at the first use."""
    if shutil.which("zig"):
        zig = ["zig"]
    elif importlib.util.find_spec("ziglang"):
        zig = [sys.executable, "-m", "ziglang"]
    else:
        pytest.skip("there is no zig")
    header = build(tmp_path, [*zig, "translate-c", "-lc", f"{INCLUDE}/jissoku.h"])
    write(tmp_path, header, "jissoku.zig")
    shutil.copy(EXAMPLES / "hello.zig", tmp_path)
    build(tmp_path, [*zig, "build-lib", "-dynamic", "-O", "ReleaseSafe", "-lc", "hello.zig"])
    check(tmp_path / "libhello.so")


@pytest.mark.timeout(600)
def test_go(tmp_path: Path) -> None:
    """The first build compiles a part of Go's library."""
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    shutil.copy(EXAMPLES / "hello.go", tmp_path)
    command = ["go", "build", "-buildmode=c-shared", "-o", "hello.so", "hello.go"]
    local = {"GOWORK": "off", "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": ""}
    build(tmp_path, command, CGO_ENABLED="1", CGO_CFLAGS=f"-I{INCLUDE}", **local)
    check(tmp_path / "hello.so")
