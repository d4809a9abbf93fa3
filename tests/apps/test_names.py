"""The ways in which users of other servers name an application."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.apps.conftest import port_of
from tests.serving.server_process import COMMAND, PATIENCE_S, Served, ask

SOURCE = """
def reply(text):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [text.encode()]
    return app
application = reply("application")
app = reply("app")
def create_app(name="created", *, count=1):
    return reply(name * count)
class Sites:
    main = reply("attribute of an attribute")
"""

NAMES = {
    "mysite.wsgi:application": b"application",
    "mysite.wsgi:Sites.main": b"attribute of an attribute",
    "mysite.wsgi:create_app()": b"created",
    "mysite.wsgi:create_app('a:b/c')": b"a:b/c",
    'mysite.wsgi:create_app("x", count=3)': b"xxx",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "mysite").mkdir()
    (tmp_path / "mysite" / "__init__.py").touch()
    (tmp_path / "mysite" / "wsgi.py").write_text(SOURCE)
    return tmp_path


def start(site: Path, *arguments: str) -> Served:
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--listen", "127.0.0.1:0"],
        cwd=site,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Served(process)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_application_is_served_by_its_name(name: str, site: Path) -> None:
    served = start(site, name)
    try:
        assert ask(port_of(served)) == (200, NAMES[name])
    finally:
        served.end()


@pytest.mark.slow
@pytest.mark.parametrize("routes", ["", "[[route]]\npath = '/**'\n"])
def test_a_name_in_the_configuration_may_be_a_call(routes: str, site: Path) -> None:
    (site / "serve.toml").write_text(f"{routes}app = \"mysite.wsgi:create_app('z', count=2)\"\n")
    served = start(site, "--config", "serve.toml")
    try:
        assert ask(port_of(served)) == (200, b"zz")
    finally:
        served.end()


WRITE = {
    "mysite.wsgi": "mysite.wsgi:application",
    "mysite/wsgi.py": "mysite.wsgi:application",
    "mysite/wsgi.py:app": "mysite.wsgi:app",
    "./mysite/wsgi.py:create_app()": "mysite.wsgi:create_app()",
    "/srv/wsgi.py:app": "wsgi:app --app-dir /srv",
}


@pytest.mark.parametrize("name", WRITE)
def test_the_message_for_a_module_or_a_path_says_what_to_write(name: str, site: Path) -> None:
    served = start(site, name)
    try:
        served.wait_for(f"(MODULE:APP, here|in it, write) {re.escape(WRITE[name])}(; its source|$)")
        assert served.process.wait(PATIENCE_S) == 2
    finally:
        served.end()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["shop.py:app"], "; a module has no suffix: write shop:app"),
        (["shop:app", "--app-dir", "flaskap"], "--app-dir: there is no directory flaskap"),
        (["shop:app", "--env-file", "nope"], "--env-file: cannot read nope: "),
        (["shop:app", "--log-config", "nope"], "--log-config: cannot read nope: "),
    ],
)
def test_a_mistake_is_named_by_its_option(arguments: list[str], sentence: str, site: Path) -> None:
    served = start(site, *arguments)
    try:
        served.wait_for(re.escape(sentence))
        assert served.process.wait(PATIENCE_S) == 2
    finally:
        served.end()


def test_a_directory_is_no_application(site: Path) -> None:
    (site / "mysite.wsgi").mkdir()
    (site / "mysite.wsgi" / "index.html").write_text("a page")
    served = start(site, "mysite.wsgi")
    try:
        assert ask(port_of(served)) == (200, b"a page")
    finally:
        served.end()
