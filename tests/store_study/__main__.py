"""Compares the store with memcached and Redis: reads, writes, increments, singly and in batches.

python -m tests.store_study [--keys N] [--blocks N] [--ms N] [--file FILE]

memcached (one thread) and Redis (without persistence) are started if they are installed, each at a
Unix socket, and asked by one client that waits for each response. The store needs no server: its
work is the client's. In each block every system does each kind of work once, in an order that is
drawn anew. What a read costs in a handler is `python -m tests.store_study.in_handler`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from jissoku.system.measurement_lock import measurement_lock
from tests.store_study import table

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "target" / "quick" / "examples" / "beside_servers"
BUILD = ["cargo", "build", "--quiet", "--profile", "quick"]
EXAMPLE = ["--package", "jissoku-store", "--example", "beside_servers"]


def main() -> None:
    """Writes the turns of a run to the file, and prints the table of them."""
    words = argparse.ArgumentParser(prog="python -m tests.store_study", description=__doc__)
    words.add_argument("--keys", type=int, default=100_000, help="with values of 100 bytes")
    words.add_argument("--blocks", type=int, default=12)
    words.add_argument("--ms", type=int, default=100, help="of a turn; a block has up to 28 turns")
    words.add_argument("--file", type=Path, default=table.RESULTS, help="where turns are kept")
    asked = words.parse_args()
    subprocess.run([*BUILD, *EXAMPLE], cwd=ROOT, check=True)
    with measurement_lock("store"), tempfile.TemporaryDirectory(prefix="jissoku-store-") as folder:
        numbers = [str(one) for one in (asked.keys, asked.blocks, asked.ms)]
        busy = os.getloadavg()[0]
        done = subprocess.run(
            [PROGRAM, folder, *numbers], stdout=subprocess.PIPE, text=True, check=True
        )
    head = {"keys": asked.keys, "ms": asked.ms, "load_before": busy, "versions": _versions()}
    asked.file.parent.mkdir(exist_ok=True, parents=True)
    asked.file.write_text(json.dumps(head) + "\n" + done.stdout, "utf-8")
    sys.stdout.write(table.text(table.read(asked.file)))


def _versions() -> dict[str, str]:
    """What the servers say, for those that are installed."""
    found = {}
    for name, program in (("memcached", "memcached"), ("redis", "redis-server")):
        try:
            said = subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=True
            )
        except FileNotFoundError:
            continue
        found[name] = said.stdout.strip()
    return found


if __name__ == "__main__":
    main()
