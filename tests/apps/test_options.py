"""Options of applications: environment variables, the configuration file, and `--reload`."""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import COMMAND, PATIENCE_S, Served, ask

SOURCE = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [{version!r}.encode()]
"""


def test_options_are_environment_variables(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(SOURCE.format(version="one"))
    variables = {
        "JISSOKU_APP": "there:app",
        "JISSOKU_APP_DIR": str(tmp_path),
        "JISSOKU_LISTEN": "127.0.0.1:0",
    }
    process = subprocess.Popen(
        COMMAND,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    served = Served(process)
    try:
        assert ask(port_of(served)) == (200, b"one")
    finally:
        served.end()


def test_options_are_keys_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "there.py").write_text(SOURCE.format(version="one"))
    config = tmp_path / "serve.toml"
    config.write_text('app = "there:app"\napp-dir = "code"\nlisten = "127.0.0.1:0"\n')
    process = subprocess.Popen(
        [*COMMAND, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process)
    try:
        assert ask(port_of(served)) == (200, b"one")
    finally:
        served.end()


def write_at_once(path: Path, text: str) -> None:
    """Writes a file that is never seen empty."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


@pytest.mark.slow
def test_a_changed_file_is_served(tmp_path: Path) -> None:
    source = tmp_path / "there.py"
    source.write_text(SOURCE.format(version="one"))
    served = serve("there:app", "--reload", directory=tmp_path)
    try:
        port = port_of(served)
        assert ask(port) == (200, b"one")
        write_at_once(source, "import nothing_of_this_name")
        served.wait_for("there.py has changed$")
        served.wait_for("^jissoku serve: not reloaded")
        assert any("ModuleNotFoundError" in line for line in served.seen)
        assert ask(port) == (200, b"one")
        write_at_once(source, SOURCE.format(version="three"))
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"three")
        assert served.process.poll() is None
    finally:
        served.end()


MORE = """
five = 5
def make():
    return app
def configure(config=None, debug=False, *, name="x", **more):
    return app
def give(what):
    return what
"""

REFUSED = [
    (["nowhere:app"], 2, "there is no module named nowhere"),
    (["there:nothing"], 2, "the module there has no attribute nothing, but app"),
    (["there:make"], 2, "there:make is a function that needs no arguments: to serve what it"),
    (["there:configure"], 2, "there:configure is a function that needs no arguments: to serve"),
    (["there:make(five)"], 2, "the arguments of there:make(five) are not literals, such as 1 or"),
    (["there:make(1)+make()"], 2, "the arguments of there:make(1)+make() are not literals, such"),
    (["there:make()", "--factory"], 2, "--factory calls APP: leave the parentheses out"),
    (
        ["there:give(5)"],
        2,
        "there:give(5) has not returned an application, but a value of type int",
    ),
    (["there:five"], 2, "there:five is not callable: it is of type int"),
    ([".", "--static", "/a=."], 2, "--static needs an application"),
    (["there:app", "--static", "a=."], 2, "invalid value 'a=.' for '--static <"),
    (["there:app", "--static", "/a=.", "--static", "/a/=."], 2, "--static /a is given twice"),
    (["there:app", "--static", "/a=/nowhere"], 2, "cannot read /nowhere"),
    ([".", "--reload"], 2, "--reload needs an application"),
    ([".", "--factory"], 2, "--factory needs an application"),
    ([".", "--max-requests", "9"], 2, "--max-requests needs worker processes"),
    (["there:app", "--wsgi", "--asgi"], 2, "the argument '--wsgi' cannot be used with '--asgi'"),
    (["there:app", "--workers", "0"], 2, "invalid value '0' for '--workers <N>'"),
    (["there:app", "--no-such-flag"], 2, "unexpected argument '--no-such-flag'"),
    (
        ["there:app", "--bind", "x:1"],
        2,
        "unexpected argument '--bind' found; here it is --listen HOST:PORT",
    ),
    (
        ["there:app", "-p", "8000"],
        2,
        "unexpected argument '-p' found; here it is --pid-file FILE, or --listen HOST:PORT",
    ),
    (["there:app", "--timeout", "30"], 2, "unexpected argument '--timeout' found; here it is"),
    (["there:app", "-k", "gthread"], 2, "unexpected argument '-k' found; here it is --wsgi or"),
    (["there:app", "--workers", "auto"], 2, "invalid value 'auto' for '--workers <N>': write a"),
    (["there:app", "--app-dir", "/nowhere"], 2, "--app-dir: there is no directory /nowhere"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "code", "sentence"), REFUSED)
def test_bad_input_is_one_sentence(
    arguments: list[str], code: int, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(SOURCE.format(version="one") + MORE)
    command = [*COMMAND, "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    if "--app-dir" in arguments:
        del command[-4:-2]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert re.fullmatch(rf"jissoku serve: {re.escape(sentence)}.*\n", done.stderr), done.stderr


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(SOURCE.format(version="one"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*COMMAND, "there:app", "--app-dir", str(tmp_path), "--listen", where]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 2
    assert done.stderr == f"jissoku serve: {where} is already in use\n"


def test_a_syntax_error_is_shown_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("def app(:\n")
    command = [*COMMAND, "there:app", "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    *traceback, last = done.stderr.splitlines()
    assert done.returncode == 1
    assert any('there.py", line 1' in line for line in traceback)
    assert last.startswith("jissoku serve: cannot import there: SyntaxError: ")
