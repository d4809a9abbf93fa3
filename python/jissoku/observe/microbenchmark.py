"""Runs programs that measure themselves, and parses the values they print."""

import re
import subprocess
from collections.abc import Sequence

from jissoku.errors import TargetError

# Limit of one round: an experiment should end within minutes.
ROUND_LIMIT_S = 120.0

LINE = re.compile(r"^([a-z][a-z0-9_]*)[ \t:=]+([0-9.]+(?:e[+-]?[0-9]+)?)$")


def run_round(name: str, command: Sequence[str]) -> dict[str, float]:
    """Runs a benchmark once, and parses the values of its output.

    Raises:
        TargetError: It cannot be run, fails, takes too long, or prints no values.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ROUND_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise TargetError(f"{name}: {command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"{name}: a round took longer than {ROUND_LIMIT_S:g} s") from error
    if done.returncode:
        raise TargetError(f"{name}: exited with code {done.returncode}", stderr=done.stderr)
    return parse_output(name, done.stdout)


def parse_output(name: str, text: str) -> dict[str, float]:
    """Parses lines of a name and a number.

    Raises:
        TargetError: A line is malformed, or there is none.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        read = LINE.match(line.strip())
        value = _number(read[2]) if read else 0.0
        if read is None or value <= 0:
            raise TargetError(
                f"{name}: {line.strip()[:60]!r} is not a result: print a name and a number above 0"
            )
        found[read[1]] = value
    if not found:
        raise TargetError(f"{name}: printed nothing; a line is a name and a number above 0")
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
