"""Results of `jissoku conformance --json`, as kept in records."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# All cases against one target, in seconds.
LIMIT_S = 900

# Cases passed, were broken, or could not be decided.
FINISHED = {0, 3, 4}

Json = dict[str, Any]


def read(file: Path) -> Json:
    """One result."""
    found: Json = json.loads(file.read_text("utf-8"))
    return found


def measure(options: Sequence[str], file: Path) -> None:
    """Runs all cases, and keeps the result if they were finished."""
    command = [sys.executable, "-m", "jissoku", "conformance", "--json", *options]
    sys.stderr.write(f"{' '.join(options)}: ")
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"not finished within {LIMIT_S} s\n")
        return
    sys.stderr.write(f"exit code {done.returncode}\n")
    if done.returncode in FINISHED:
        file.write_bytes(done.stdout)
