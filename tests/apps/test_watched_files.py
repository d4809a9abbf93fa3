"""`--reload` with a configuration file and a file of environment variables: both are watched."""

import signal
from pathlib import Path

import pytest

from tests.apps.conftest import port_of
from tests.apps.test_options import SOURCE, write_at_once
from tests.c_handlers.conftest import HELLO
from tests.serving.server_process import PATIENCE_S, Load, ask, spawn

pytestmark = pytest.mark.slow

LISTEN = 'listen = "127.0.0.1:0"\n'

ENVIRONMENT = """
import os
text = os.environ["TEXT"].encode()
def app(environ, start_response):
    start_response("200 OK", [])
    return [text]
"""


def test_a_changed_configuration_is_served(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f'{LISTEN}fixed = "one"\n')
    served = spawn("--config", str(file), "--reload")
    try:
        port = port_of(served)
        with Load(port) as load:
            assert ask(port) == (200, b"one")
            write_at_once(file, f'{LISTEN}fixed = "two"\nworkers = "x"\n')
            served.wait_for(r"^jissoku serve: .*serve\.toml has changed$")
            served.wait_for(r"^jissoku serve: not reloaded: .*serve\.toml, line 3: .*'x'")
            load.wait_for_answers()
            assert ask(port) == (200, b"one")
            file.unlink()
            served.wait_for(r"^jissoku serve: not reloaded: cannot read .*serve\.toml: ")
            assert ask(port) == (200, b"one")
            write_at_once(file, f'{LISTEN}fixed = "three"\nworkers = 2\n')
            served.wait_for("^reloaded$")
            assert ask(port) == (200, b"three")
            load.wait_for_answers()
    finally:
        served.end()


def test_a_new_program_watches_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f'{LISTEN}fixed = "one"\nreload = true\n')
    served = spawn("--config", str(file))
    try:
        port = port_of(served)
        served.replace()
        write_at_once(file, f'{LISTEN}fixed = "two"\nreload = true\n')
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"two")
        assert served.process.wait(PATIENCE_S) == 0
        assert sum(line.endswith("has changed") for line in served.seen) == 1
    finally:
        served.end()


def test_a_changed_file_of_variables_is_served(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(ENVIRONMENT)
    variables, file = tmp_path / ".env", tmp_path / "serve.toml"
    variables.write_text("TEXT=one\n")
    text = f'{LISTEN}app = "there:app"\napp-dir = "."\nreload = true\n'
    file.write_text(f'{text}env-file = ".env"\n')
    served = spawn("--config", str(file))
    try:
        port = port_of(served)
        assert ask(port) == (200, b"one")
        write_at_once(variables, "TEXT=two\nTEXT\n")
        served.wait_for(r"^jissoku serve: .*\.env has changed$")
        served.wait_for(r"^jissoku serve: not reloaded: .*\.env, line 2: write NAME=VALUE")
        assert ask(port) == (200, b"one")
        write_at_once(variables, "TEXT=three\n")
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"three")
        # From now on another file.
        (tmp_path / "other.env").write_text("TEXT=four\n")
        write_at_once(file, f'{text}env-file = "other.env"\n')
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"four")
        write_at_once(tmp_path / "other.env", "TEXT=five\n")
        served.wait_for(r"^jissoku serve: .*other\.env has changed$")
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"five")
    finally:
        served.end()


def test_an_application_is_served_when_its_configuration_is_mended(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(SOURCE.format(version="one"))
    file = tmp_path / "serve.toml"
    text = f'{LISTEN}reload = true\napp-dir = "."\nworkers = 2\napp = '
    file.write_text(f'{text}"there:nothing"\n')
    served = spawn("--config", str(file))
    try:
        served.wait_for("^jissoku serve: the module there has no attribute nothing")
        served.wait_for(r"^jissoku serve: waiting for a change below .* or of .*serve\.toml$")
        write_at_once(file, f'{text}"nowhere:app"\n')
        served.wait_for(r"^jissoku serve: .*serve\.toml has changed$")
        served.wait_for("^jissoku serve: there is no module named nowhere")
        served.wait_for("^jissoku serve: waiting for a change below ")
        write_at_once(file, f'{text}"there:app"\nno-such-key = 1\n')
        served.wait_for(r"^jissoku serve: .*serve\.toml, line 6: there is no key ")
        served.wait_for("^jissoku serve: waiting for a change below ")
        write_at_once(file, f'{text}"there:app"\n')
        assert ask(port_of(served)) == (200, b"one")
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


def test_an_application_is_served_when_its_variables_are_there(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(ENVIRONMENT)
    variables = tmp_path / ".env"
    variables.write_text("")
    arguments = ["--app-dir", str(tmp_path), "--env-file", str(variables), "--reload"]
    served = spawn("there:app", "--listen", "127.0.0.1:0", *arguments)
    try:
        served.wait_for("^jissoku serve: cannot import there: KeyError")
        served.wait_for("^jissoku serve: waiting for a change below ")
        write_at_once(variables, "TEXT=one\n")
        assert ask(port_of(served)) == (200, b"one")
    finally:
        served.end()


def test_the_sources_of_new_routes_are_watched(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hello.c").write_text(HELLO.replace("Hello", folder))

    def configuration(folder: str) -> str:
        route = f'[[route]]\npath = "/**"\nhandler = "{folder}/hello.c"\n'
        return f"{LISTEN}reload = true\n{route}"

    file.write_text(configuration("a"))
    served = spawn("--config", str(file), XDG_CACHE_HOME=str(tmp_path / ".cache"))
    try:
        port = port_of(served)
        assert ask(port) == (200, b"a, !")
        write_at_once(file, configuration("b"))
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"b, !")
        write_at_once(tmp_path / "b" / "hello.c", "int x = ;\n")
        served.wait_for(r"^jissoku serve: not reloaded: .*hello\.c does not compile")
        assert ask(port) == (200, b"b, !")
        write_at_once(tmp_path / "b" / "hello.c", HELLO.replace("Hello", "mended"))
        served.wait_for("^reloaded$")
        assert ask(port) == (200, b"mended, !")
    finally:
        served.end()
