"""Runs the Rust tests of the workspace, several test binaries at a time.

python -m tests.cargo_tests [--at-once N]

`cargo test` runs one binary after the other, and a test of sockets and timers mostly waits. The
output of a binary is printed if it fails; the exit code is 1 then. Documentation has no examples
that would be tests.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

COUNTS = re.compile(r"^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TestBinary:
    """A compiled test binary.

    Attributes:
        package: The folder of its package, in which cargo runs it, too.
    """

    path: Path
    package: Path


def main() -> int:
    """Builds and runs all of them; returns the exit code."""
    words = argparse.ArgumentParser(prog="python -m tests.cargo_tests")
    words.add_argument("--at-once", type=int, default=len(os.sched_getaffinity(0)))
    asked = words.parse_args()
    passed = failed = ignored = 0
    with ThreadPoolExecutor(asked.at_once) as pool:
        # The largest first: they tend to be those that run longest.
        found = sorted(binaries(), key=lambda one: one.path.stat().st_size, reverse=True)
        for binary, done in zip(found, pool.map(run, found), strict=True):
            counts = COUNTS.search(done.stdout)
            if counts is not None:
                passed += int(counts[1])
                failed += int(counts[2])
                ignored += int(counts[3])
            if done.returncode != 0:
                failed += counts is None
                sys.stdout.write(f"{binary.path} (exit code {done.returncode})\n{done.stdout}\n")
    sys.stdout.write(f"Rust: {passed} passed, {failed} failed, {ignored} ignored\n")
    return 1 if failed else 0


def binaries() -> Iterator[TestBinary]:
    """Those of every crate; they are compiled if they have changed."""
    words = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            yield TestBinary(Path(message["executable"]), Path(message["manifest_path"]).parent)


def run(binary: TestBinary) -> subprocess.CompletedProcess[str]:
    """One binary with all its tests."""
    return subprocess.run(
        [binary.path],
        cwd=binary.package,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
