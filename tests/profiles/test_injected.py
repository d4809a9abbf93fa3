"""Servers that burn a known share of a request's CPU time in a function of a known name."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jissoku.cli import exit_codes

INJECTED = Path(__file__).parent / "injected"
LIMIT_S = 280

# Of the time of a request the rest is the socket's and the runtime's: so much of the injected share
# can be missing. Bounds are wide: what is asserted is which function is named, not how exactly.
SHARE_ERROR_MAX = 0.15

NAMES = {
    "c": "injected_burn",
    "go": "main.injectedBurn",
    "java": "Server.injectedBurn",
    "node": "injectedBurn",
    "python": "injected_burn",
}


def server(language: str, folder: Path) -> list[str]:
    """The command of an injected server, without port and share; skips where it cannot be built."""
    compilers = {"c": "cc", "go": "go", "java": "javac", "node": "node", "python": sys.executable}
    tool = shutil.which(compilers[language])
    if tool is None:
        pytest.skip(f"{compilers[language]} is not installed")
    program = folder / f"injected-{language}"
    if language == "c":
        # As distributions compile: without frame pointers.
        flags = ["-O2", "-g", "-fomit-frame-pointer"]
        build = [tool, *flags, "-o", str(program), str(INJECTED / "server.c")]
        subprocess.run(build, check=True)
        return [str(program)]
    if language == "go":
        build = [tool, "build", "-o", str(program), str(INJECTED / "server.go")]
        subprocess.run(build, check=True, cwd=folder)
        return [str(program)]
    if language == "java":
        subprocess.run([tool, "-d", str(folder), str(INJECTED / "server.java")], check=True)
        kept = "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Server.*"
        return [str(Path(tool).resolve().with_name("java")), *kept, "-cp", str(folder), "Server"]
    if language == "node":
        # What V8 inlines counts as its caller.
        return [tool, "--no-turbo-inlining", str(INJECTED / "server.js")]
    return [tool, str(INJECTED / "server.py")]


def profile(folder: Path, commands: dict[str, list[str]], *more: str) -> dict[str, Any]:
    """What `jissoku profile --json` reports of commands."""
    return lab(folder, "profile", commands, "--json", "-d", "4", *more)


def lab(folder: Path, verb: str, commands: dict[str, list[str]], *more: str) -> dict[str, Any]:
    """The JSON that a verb prints of commands."""
    words = [
        word
        for name, command in commands.items()
        for word in ("--cmd", f"{name}={shlex.join(command)}".replace("PORT", "{port}"))
    ]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", verb, *words, *more],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if "not allowed" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode in {exit_codes.OK, exit_codes.UNDECIDED}, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.race
@pytest.mark.parametrize("language", NAMES)
def test_an_injected_function_is_named(language: str, tmp_path: Path) -> None:
    command = [*server(language, tmp_path), "PORT", "600"]
    (found,) = profile(tmp_path, {"injected": command})["profiles"]
    first = found["functions"][0]
    assert first["name"] == NAMES[language]
    assert abs(first["ns_with_callees"] / found["total_ns"] - 0.6) < SHARE_ERROR_MAX
    parts = sum(row["ns"] for row in found["parts"])
    assert parts == pytest.approx(found["total_ns"], rel=1e-6)


@pytest.mark.race
def test_a_difference_names_what_was_injected(tmp_path: Path) -> None:
    command = server("c", tmp_path)
    commands = {"without": [*command, "PORT", "0"], "with": [*command, "PORT", "500"]}
    change = profile(tmp_path, commands, "--out", "run")["difference"]
    names = [row["name"] for row in change["functions"][:2]]
    assert set(names) == {"injected_burn", "ordinary_work"}
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"profiles.jsonl", "profile.html", "flame-difference.svg", "flame-with.svg"} <= files
    page = (tmp_path / "run" / "profile.html").read_bytes()
    again = [sys.executable, "-m", "jissoku", "report", "run", "--json"]
    subprocess.run(again, cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT_S)
    assert (tmp_path / "run" / "profile.html").read_bytes() == page
    assert str(tmp_path) not in (tmp_path / "run" / "profiles.jsonl").read_text()


@pytest.mark.race
def test_a_comparison_with_profiles_names_what_was_injected(tmp_path: Path) -> None:
    command = server("c", tmp_path)
    commands = {"without": [*command, "PORT", "0"], "with": [*command, "PORT", "500"]}
    load = ("-R", "1000", "--blocks", "2", "--check-blocks", "0", "--seed", "7")
    summary = lab(tmp_path, "compare", commands, "--profile", "--json", "--out", "run", *load)
    pairs = {(one["arm"], one["against"], one["metric"]) for one in summary["comparisons"]}
    assert ("with", "without", "cost") in pairs
    change = json.loads((tmp_path / "run" / "profile.json").read_text())["difference"]
    # Half of a request's time is moved from one function to the other.
    ns = {row["name"]: row["ns"] for row in change["functions"][:2]}
    assert set(ns) == {"injected_burn", "ordinary_work"}
    assert ns["injected_burn"][0] == 0
    assert 0.8 < ns["injected_burn"][1] / ns["ordinary_work"][1] < 1.25
    assert (tmp_path / "run" / "flame-difference.svg").exists()


@pytest.mark.race
def test_a_stripped_program_keeps_its_library(tmp_path: Path) -> None:
    (program,) = server("c", tmp_path)
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("strip is not installed")
    subprocess.run([strip, program], check=True)
    (found,) = profile(tmp_path, {"stripped": [program, "PORT", "500"]})["profiles"]
    assert found["libraries"][0]["name"] == "injected-c"
    assert any("without symbols" in remark for remark in found["remarks"])
