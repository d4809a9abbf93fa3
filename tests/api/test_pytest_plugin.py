"""The fixtures for pytest, in a project of their own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import LIMIT_S

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(folder: Path, source: str, conftest: str = "") -> str:
    """The end of pytest's output, with a line for each test."""
    (folder / "test_it.py").write_text(source)
    (folder / "conftest.py").write_text(conftest)
    # The entry point is that of an installed package, which may be another version.
    path = os.pathsep.join((str(folder), str(ROOT), str(ROOT / "python")))
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    options = ["-q", "-rA", "-c", os.devnull, "-W", "error", "-p", "no:cacheprovider"]
    # Without a folder of its own, this pytest would delete the folders of earlier sessions before
    # it exits.
    options.append(f"--basetemp={folder / 'temporary'}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "jissoku.pytest_plugin", *options, str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=LIMIT_S,
        check=False,
    )
    return done.stdout + done.stderr


def test_it_is_an_entry_point_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"jissoku": "jissoku.pytest_plugin"}


def test_a_project_that_does_not_use_it_imports_nothing_of_it(tmp_path: Path) -> None:
    source = """
import sys

def test_modules():
    loaded = {name for name in sys.modules if name.partition(".")[0] in {"jissoku", "msgspec"}}
    assert loaded == {"jissoku", "jissoku.pytest_plugin"}
"""
    assert "1 passed" in run(tmp_path, source)


SERVED = """
import urllib.request

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]

async def asgi(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})

def read(url):
    with urllib.request.urlopen(url) as response:
        return response.read()

gone = []

def test_objects_and_names(jissoku_server):
    urls = [jissoku_server(app), jissoku_server("test_it:app"), jissoku_server(asgi)]
    assert len(set(urls)) == 3
    assert [read(url) for url in urls] == [b"hello"] * 3
    gone.extend(urls)

def test_they_end_with_the_test():
    for url in gone:
        try:
            read(url)
        except OSError as error:
            assert "refused" in str(error)
        else:
            assert False, "it is still there"
"""


def test_an_application_is_served_for_a_test(tmp_path: Path) -> None:
    said = run(tmp_path, SERVED)
    assert "2 passed" in said, said


MADE_UP = """
from jissoku.measure import asked_comparison
from jissoku.model import Method
from jissoku.model.updated import updated
from tests.ci.made_up import BASE_NS, campaign

def compare(config, listener, seen):
    made = campaign(lambda config: {"head": BASE_NS * head[0]}, blocks=10)
    return made(updated(config, method=Method.PAIRED), listener)

asked_comparison.compare = compare
head = [1.0]
"""

COMPARED = """
import sys
import pytest
from conftest import head

PROGRAM = sys.executable + " -m http.server {port}"
OPTIONS = {"rate": 5000, "seed": 7}

@pytest.mark.parametrize("factor", [0.9, 1.0, 1.02, 1.1])
def test_two_percent(assert_not_slower, factor):
    head[0] = factor
    assert_not_slower(PROGRAM, PROGRAM, **OPTIONS)

def test_a_wide_margin(assert_not_slower):
    head[0] = 1.1
    found = assert_not_slower(PROGRAM, PROGRAM, margin="20%", **OPTIONS)
    assert found.bounds[0].status == "kept"

def test_undecided(assert_not_slower):
    head[0] = 1.02
    found = assert_not_slower(PROGRAM, PROGRAM, undecided="pass", **OPTIONS)
    assert found.bounds[0].status == "undecided"

def test_no_margin(assert_not_slower):
    assert_not_slower(PROGRAM, PROGRAM, margin="two", **OPTIONS)
"""


def test_what_is_proven_slower_or_undecided_fails(tmp_path: Path) -> None:
    said = run(tmp_path, COMPARED, MADE_UP)
    failed = sorted(
        line.partition(" - ")[::2] for line in said.splitlines() if "FAILED" in line[:6]
    )
    names = [name.rpartition("::")[2] for name, _ in failed]
    assert names == ["test_no_margin", "test_two_percent[1.02]", "test_two_percent[1.1]"], said
    assert "fail if cost(head) > 1.02 x cost(base): exceeded" in said
    assert "fail if cost(head) > 1.02 x cost(base): undecided" in said
    assert "'two' is not a precision" in said
    assert "4 passed" in said
    assert not (tmp_path / "runs").exists()
