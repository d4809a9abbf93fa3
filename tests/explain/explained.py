"""`jissoku explain` on our own server with an injected cause, and its findings."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

# A run takes a quarter of a minute alone, and a machine may be busy.
LIMIT_S = 280


def causes(folder: Path, *warnings: str, seed: int = 1) -> set[str]:
    """The names of the findings about the server, without those about how it was started."""
    words = [sys.executable, "-m", "jissoku", "serve", "--contract", *warnings]
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
