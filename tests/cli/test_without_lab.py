"""The package without the extra `lab`: server and load generator need none of its libraries."""

import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import jissoku
from jissoku.cli.commands import LAB_COMMANDS, LAB_LIBRARIES

ROOT = Path(__file__).parents[2]
# Their modules have other names.
MODULES = {"hdrhistogram": "hdrh"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with jissoku and what it requires."""
    folder = tmp_path_factory.mktemp("packages")
    for package in (jissoku, click):
        assert package.__file__ is not None
        source = Path(package.__file__).parent
        (folder / source.name).symlink_to(source)
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # -S: without the packages of this interpreter.
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from jissoku.cli import main; main()"
    command = [sys.executable, "-I", "-S", "-c", code, str(installed), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--help"], "serve"),
        (["--version"], "jissoku "),
        (["serve", "--help"], "--listen"),
        (["load", "--help"], "--connections"),
        (["completions", "bash"], "compare"),
        (["migrate", "gunicorn mysite.wsgi -w 4"], "jissoku serve mysite.wsgi"),
        (["help", "floor"], "minimal server"),
    ],
)
def test_what_works_without_it(installed: Path, arguments: list[str], expected: str) -> None:
    done = run(installed, *arguments)
    assert done.returncode == 0
    # Remarks are not part of the line.
    assert done.stderr == "" or (arguments[0] == "migrate" and "\ndiffers:\n" in done.stderr)
    assert expected in done.stdout


@pytest.mark.parametrize(
    "verb",
    [v for verbs in LAB_COMMANDS.values() for v in verbs if v not in {"help", "migrate"}],
)
def test_a_command_of_the_lab_says_how_to_install_it(installed: Path, verb: str) -> None:
    done = run(installed, verb)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("jissoku: the laboratory needs ")
    assert done.stderr.endswith(": pip install 'jissoku[lab]'\n")
    assert done.stderr.count("\n") == 1


def test_the_libraries_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [line.partition(">=")[0] for line in project["dependencies"]] == ["click"]
    extra = {line.partition(">=")[0] for line in project["optional-dependencies"]["lab"]}
    assert {MODULES.get(name, name) for name in extra} == LAB_LIBRARIES
