"""`jissoku explain` on our own server with an injected cause, and its findings."""

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

# A run takes a quarter of a minute alone, and a machine may be busy.
LIMIT_S = 280

# By what is injected.
INJECTED: dict[str, dict[str, Any]] = {
    cause["plant"]: cause
    for cause in tomllib.loads(Path(__file__).with_name("detection.toml").read_text())["cause"]
}

# Causes that do not hide each other share a server.
GROUPS = (
    ("herd", "log", "open", "peername=2", "split"),
    ("close-after=5",),
    ("split-delayed",),
    ("linear-timers", "single-worker"),
)


def expected(group: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The names that have to be found of injected causes, and those that may be found beside."""
    names = {INJECTED[plant]["name"] for plant in group}
    return names, {name for plant in group for name in INJECTED[plant].get("beside", ())} - names


def causes(folder: Path, *warnings: str, seed: int = 1) -> set[str]:
    """The names of the findings about the server, without those about how it was started."""
    words = [sys.executable, "-m", "jissoku", "lab", "serve", "--contract", *warnings]
    command = shlex.join(words) + " --workers {workers} --listen 127.0.0.1:{port}"
    arguments = ["explain", "--cmd", f"ours={command}", "--json", "--seed", str(seed)]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return {found["name"] for found in report["findings"] if found["scope"] == "server"}
