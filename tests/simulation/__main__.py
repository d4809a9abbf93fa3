"""Counts with many campaigns how often verdicts are wrong, and prints a table.

python -m tests.simulation [--only TEXT] [--seconds S] [--counts FILE] [--write]
"""

import argparse
import sys
import time
from pathlib import Path

from tests.simulation import counts as kept, table
from tests.simulation.counts import Count
from tests.simulation.scenarios import SCENARIOS

DOCUMENT = Path(__file__).parents[2] / "docs" / "ERROR-RATES.md"


def main() -> int:
    """Ends with 1 where a share lies outside of its bounds."""
    words = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    words.add_argument("--only", default="", help="scenarios whose name holds this")
    words.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    words.add_argument("--counts", type=Path, help="keep what was counted here, and continue it")
    words.add_argument("--write", action="store_true", help=f"put the table into {DOCUMENT.name}")
    asked = words.parse_args()
    chosen = [scenario for scenario in SCENARIOS if asked.only in scenario.key]
    counts = kept.read(asked.counts) if asked.counts else {}
    end = time.monotonic() + asked.seconds
    for scenario in chosen:
        count = counts.setdefault(scenario.key, Count())
        while count.campaigns < scenario.long and time.monotonic() < end:
            count.add(scenario)
        sys.stderr.write(f"{count.campaigns:5} of {scenario.long}  {scenario.key}\n")
    if asked.counts:
        kept.write(asked.counts, counts)
    done = [scenario for scenario in chosen if counts[scenario.key].campaigns]
    whole = table.text(done, counts)
    sys.stdout.write(whole)
    wrong = [text for scenario in done for text in kept.outside(scenario, counts[scenario.key])]
    sys.stderr.write("".join(f"outside: {text}\n" for text in wrong))
    if asked.write and not kept.left(SCENARIOS, counts):
        DOCUMENT.write_text(table.replaced(DOCUMENT.read_text(), whole))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
