"""Shows the progress of a constructed run, a step for each line of standard input.

After each step the terminal gets a title, which shows nowhere: the step is drawn.
"""

import os
import sys
import warnings

from jissoku.cli.frame import print_message
from jissoku.cli.progress import ProgressDisplay
from jissoku.model import Load, LoadLevel, Trial, TrialKind
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import TrueValues

DRAWN = b"\x1b]0;drawn\x07"

HEAVY = Load(rate_rps=50_000, level=LoadLevel.HEAVY)
RUN = factories.sliced(
    ["ours", "other", "slow", "floor"],
    floor="floor",
    horizon=9,
    loads=(factories.MIDDLE, HEAVY),
    objective="p99<10ms",
)
TRUTHS = {
    "ours": TrueValues(cost_ns=5000),
    "other": TrueValues(cost_ns=5060),
    "slow": TrueValues(cost_ns=50_000, reach_rps=30_000),
    "floor": TrueValues(cost_ns=4500),
}
TRIALS = [
    updated(trial, elapsed_s=4.0 * (trial.index + 1))
    for trial in factories.trials(RUN, TRUTHS, blocks=9, check_blocks=0, solo_blocks=0)
]


def until(block: int) -> list[Trial]:
    return [trial for trial in TRIALS if trial.block < block]


def main() -> None:
    with ProgressDisplay(quiet="quiet" in sys.argv) as show:
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "note":
                show.note(rest)
            elif word == "verdict":
                show.verdict(rest)
            elif word == "begins":
                show.begins(rest)
            elif word == "values":
                show.values(RUN, until(int(rest)))
            elif word == "trial":
                done, total, left = rest.split()
                trial = factories.trial(TrialKind.PAIRED, factories.arm_measurement())
                show.trial(trial, int(done), int(total), float(left))
            elif word == "warn":
                warnings.warn(rest, stacklevel=1)
                print_message(rest)
                sys.stdout.write(f"{rest}\n")
            if os.isatty(2):
                os.write(2, DRAWN)
    print_message("the end")


if __name__ == "__main__":
    main()
