"""The GitHub action's script, run as a runner does, with a command in place of jissoku."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from jissoku.cli.compare import compare

ACTION = Path(__file__).parents[2] / "action.yml"


def script() -> str:
    """The script of the single step; the file is simple enough to be parsed so."""
    lines = ACTION.read_text().partition("      run: |\n")[2].splitlines()
    return "\n".join(line[8:] for line in lines) + "\n"


@pytest.mark.parametrize("code", [0, 3, 4])
def test_the_script_passes_inputs_on_and_the_code_back(code: int, tmp_path: Path) -> None:
    program = tmp_path / "jissoku"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > arguments\nexit {code}\n')
    program.chmod(0o755)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)  # noqa: S607
    inputs = {
        "BASE": "origin/main", "BUILD": "", "CMD": "./server --port {port}; $(touch pwned)",
        "FAIL_IF": "cost(head) > 1.01 x cost(base)", "UNDECIDED": "ok",
        "ARGUMENTS": "-R 5000\n-c 8\n", "OUT": "out", "GITHUB_OUTPUT": str(tmp_path / "output"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script()],  # noqa: S607
        cwd=tmp_path,
        env=os.environ | inputs | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == code
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    words = (tmp_path / "arguments").read_text().splitlines()
    assert words[:3] == ["compare", "--cmd", "head=./server --port {port}; $(touch pwned)"]
    assert words[-4:] == ["-R", "5000", "-c", "8"]
    assert not (tmp_path / "pwned").exists()


def test_the_script_uses_options_that_exist() -> None:
    used = set(re.findall(r"(?<=\s)--[a-z-]+", script().replace("\\\n", "")))
    known = {name for option in compare.params for name in option.opts}
    assert used <= known


def test_inputs_reach_the_script_through_the_environment_only() -> None:
    assert "${{" not in script()
