"""Recipes for containers, Homebrew, Nix and continuous integration: valid, and of this tree."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import JISSOKU
from tests.serving.server_process import PATIENCE_S, spawn

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
SCRIPTS = [
    path
    for path in sorted(PACKAGING.rglob("*"))
    if path.is_file() and path.read_text().startswith("#!")
]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each with its arguments."""
    text = (PACKAGING / "container" / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_runs_as_a_user_on_a_supported_python() -> None:
    found = dict(instructions())
    assert int(found["USER"]) > 0, "a number, which an orchestrator can verify"
    names = [name for name, _ in instructions()]
    assert names[0] == "FROM"
    assert names.index("RUN") < names.index("USER") < names.index("ENTRYPOINT")
    version = re.fullmatch(r"python:(3\.\d+)-slim", found["FROM"])
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in classifiers()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "other.html"])
def test_the_container_is_healthy_while_it_serves(page: str, tmp_path: Path) -> None:
    found = dict(instructions())
    assert json.loads(found["ENTRYPOINT"]) == ["jissoku"]
    assert json.loads(found["CMD"]) == ["serve", "/srv", "--listen", "0.0.0.0:8000"]
    program, *words = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    assert program == "jissoku"
    (tmp_path / page).write_text("here")
    served = spawn(str(tmp_path), "--listen", "127.0.0.1:0")
    try:
        url = served.wait_for(r"listening on (\S+)")[1]
        check = [*JISSOKU, *(url if word.startswith("http://") else word for word in words)]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        served.process.terminate()
        assert served.process.wait(PATIENCE_S) == 0
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout
    finally:
        served.end()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid(path: Path) -> None:
    assert path.stat().st_mode & 0o111
    shell = path.read_text().splitlines()[0].removeprefix("#!")
    checker = shutil.which("shellcheck")
    command = [checker] if checker else [shell, "-n"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("homebrew/jissoku.rb.in", ["ruby", "-c"]),
        ("nix/default.nix", ["nix-instantiate", "--parse"]),
    ],
)
def test_recipes_are_valid_and_name_files_that_exist(path: str, command: list[str]) -> None:
    file = PACKAGING / path
    text = file.read_text()
    named = re.findall(r'(\.\./\.\./[\w.]+)|path: "([\w/-]+)"', text)
    assert named
    for relative, absolute in named:
        assert (file.parent / relative if relative else ROOT / absolute).exists()
    program = shutil.which(command[0])
    if program is not None:
        done = subprocess.run(
            [program, *command[1:], str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def classifiers() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["classifiers"])


def test_the_workflow_builds_a_wheel_for_each_python_that_the_package_names() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())
    matrix = workflow["jobs"]["build"]["strategy"]["matrix"]
    assert matrix["libc"] == ["2_28", "musllinux_1_2"]
    assert len(matrix["machine"]) == 2
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers()))
    assert [version for version in matrix["python"] if not version.endswith("t")] == named
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(len({"run", "uses"} & set(step)) == 1 for step in steps)
    scripts = " ".join(step.get("run", "") for step in steps)
    for name in re.findall(r"packaging/[\w/-]+", scripts):
        assert (ROOT / name).is_file(), name
    profiles = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]
    assert set(re.findall(r"--profile (\w+)", scripts)) <= set(profiles)
