"""Servers that burn a known share of a request's CPU time in a function of a known name."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jissoku.cli.frame import ExitCode
from tests.profile_study import injected
from tests.profile_study.injected import NAMES

LIMIT_S = 280

# Servers measure their own truth, since what a runtime itself takes has no fixed size: Node,
# whose code is not compiled yet, needs as much as a third of a request. Bounds are wide: what is
# asserted is which function is named, not how exactly.
SHARE_ERROR_MAX = 0.15


def server(language: str, folder: Path) -> list[str]:
    """The command of an injected server, without port and share; skips where it cannot be built."""
    try:
        return injected.server(language, folder)
    except injected.ToolMissing as tool:
        pytest.skip(f"{tool} is not installed")


def profile(folder: Path, commands: dict[str, list[str]], *more: str) -> dict[str, Any]:
    """What `jissoku profile --json` reports of commands."""
    return lab(folder, "profile", commands, "--json", "-d", "4", "-F", "997", *more)


def explain(folder: Path, name: str, command: list[str], *more: str) -> dict[str, Any]:
    """What `jissoku explain --json` reports of a command."""
    return lab(folder, "explain", {name: command}, "--json", *more)


def compiled(source: str, folder: Path) -> str:
    """The program of a C file; skips without a compiler."""
    try:
        return injected.compiled(source, folder)
    except injected.ToolMissing as tool:
        pytest.skip(f"{tool} is not installed")


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
    assert done.returncode in {ExitCode.OK, ExitCode.UNDECIDED}, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.race
@pytest.mark.parametrize("language", NAMES)
def test_an_injected_function_is_named(language: str, tmp_path: Path) -> None:
    truth = tmp_path / "truth.txt"
    command = [*server(language, tmp_path), "PORT", "600", "400", str(truth)]
    (found,) = profile(tmp_path, {"injected": command})["profiles"]
    first = found["functions"][0]
    measured = injected.read_truth(truth, 3_000_000_000)
    share = measured.burnt_ns_per_request / found["total_ns"]
    # Rust's has the name of the crate before it.
    assert first["name"].endswith(NAMES[language])
    assert abs(first["ns_with_callees"] / found["total_ns"] - share) < SHARE_ERROR_MAX
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
def test_processes_shorter_than_a_period_are_found(tmp_path: Path) -> None:
    command = [compiled("forking.c", tmp_path), "PORT"]
    (found,) = profile(tmp_path, {"forking": command})["profiles"]
    parts = {row["name"]: row["ns"] for row in found["parts"]}
    short = parts.get("not sampled: processes end too soon")
    if short is None:
        # Whole cores are sampled.
        short = next(row["ns"] for row in found["functions"] if row["name"] == "short_work")
    else:
        assert any("1 per request" in remark for remark in found["remarks"])
    # Where threads are sampled, the kernel passes what is left until the next sample on to the
    # child that runs next, so the parent may have no samples either.
    assert 0.2 < short / found["total_ns"] < 1.001
    explained = explain(tmp_path, "forking", command, "--probe", "functions")
    (cause,) = [one for one in explained["findings"] if one["name"] == "start-per-request"]
    assert any("processes are started per request" in line for line in cause["evidence"])


@pytest.mark.race
def test_a_target_that_dies_is_a_sentence(tmp_path: Path) -> None:
    (program, *_) = server("c", tmp_path)
    # It ends in the window, after pilot and warm-up.
    command = ["sh", "-c", f"{program} $0 500 & sleep 5; kill $!", "PORT"]
    words = ["--cmd", f"dies={shlex.join(command)}".replace("PORT", "{port}")]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "profile", *words, "-d", "8", "-F", "997", "-R", "500"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == ExitCode.FAILED
    last = done.stderr.strip().splitlines()[-1]
    assert "dies" in last
    assert "while it was profiled" in last


@pytest.mark.race
def test_an_interrupted_profile_reports_the_samples_until_then(tmp_path: Path) -> None:
    (program, *_) = server("c", tmp_path)
    sampled, silent = tmp_path / "sampled", tmp_path / "silent"
    os.mkfifo(sampled)
    os.mkfifo(silent)
    # It opens the pipe in the window, after pilot and warm-up; no process of it ends.
    wait = f"(read -t 5 <>{silent}; : >{sampled}; read <>{silent})"
    command = ["bash", "-c", f"{wait} & exec {program} $0 500", "PORT"]
    words = ["--cmd", f"slow={shlex.join(command)}".replace("PORT", "{port}")]
    words += ["-d", "60", "-F", "997", "-R", "2000", "--out", "run"]
    with subprocess.Popen(
        [sys.executable, "-m", "jissoku", "profile", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        sampled.read_bytes()
        os.killpg(process.pid, signal.SIGINT)
        text, complaint = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, complaint
    assert re.search(r"It was interrupted after [1-9]\.\d of 60 s\.", text)
    assert "injected_burn" in text
    assert (tmp_path / "run" / "profile.html").exists()


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
