"""Programs that measure themselves: one round, and what it prints."""

import re
import subprocess
from collections.abc import Callable, Sequence

from jissoku.errors import TargetError
from jissoku.measure.syscall_costs import empty_syscall_ns
from jissoku.model.experiment import Microbenchmark
from jissoku.system.cores import pin_process

# Limit of one round: an experiment should end within minutes.
ROUND_LIMIT_S = 120.0

LINE = re.compile(r"^([a-z][a-z0-9_]*)[ \t:=]+((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)$")

# The benchmark without a program: the cost of a system call on the machine of the targets.
SYSCALL_BENCHMARK = Microbenchmark(name="here", command=(), rounds=9, seconds=0.1)

# One round on some cores: its values by their names. TargetError if it fails.
BenchmarkRound = Callable[[tuple[int, ...]], dict[str, float]]


def run_on(name: str, command: Sequence[str], cores: tuple[int, ...]) -> dict[str, float]:
    """One round of a command, or without one of the benchmark of system calls, on these cores."""
    with pin_process(cores):
        return run_round(name, command) if command else {"syscall_ns": empty_syscall_ns()}


def run_round(name: str, command: Sequence[str]) -> dict[str, float]:
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
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        read = LINE.match(line.strip())
        value = float(read[2]) if read else 0.0
        if read is None or value <= 0:
            raise TargetError(
                f"{name}: {line.strip()[:60]!r} is not a result: print a name and a number above 0"
            )
        found[read[1]] = value
    if not found:
        raise TargetError(f"{name}: printed nothing; a line is a name and a number above 0")
    return found
