"""What a core that is kept in use changes in a server's CPU time per request.

python -m tests.idle_core_study [--rate R] [--starts N] [TARGET...]

Prints, for each target, the quotient of the costs with the core in use and without, with its 95 %
interval over starts.
"""

import argparse
import functools
import math
import sys

from jissoku.system.cores import core_assignment
from tests import alternating_windows, core_in_use

TARGETS = ("nginx-tuned", "jissoku", "go", "node", "uvicorn", "tornado", "granian")


def main() -> None:
    """Measures one target after the other."""
    words = argparse.ArgumentParser(prog="python -m tests.idle_core_study")
    words.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS))
    words.add_argument("--rate", type=int, default=5_000, help="requests per second")
    words.add_argument("--starts", type=int, default=4)
    asked = words.parse_args()
    core = core_assignment(None, None).server[0]
    for name in asked.targets:
        arm = alternating_windows.prepared_arm(name)
        ratios = []
        for seed in range(asked.starts):
            with (
                core_in_use.idle_loop(core) as loop,
                alternating_windows.started(arm, seed) as server,
            ):
                condition = functools.partial(core_in_use.running, loop)
                ratios.append(alternating_windows.log_ratio(server, condition, asked.rate))
        mean, low, high = map(math.exp, alternating_windows.interval(ratios))
        line = f"{name} at {asked.rate:,} requests/s: {mean:.3f} [{low:.3f}, {high:.3f}]"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
