"""What a page of `jissoku ui` that follows a run costs it, on this machine.

python -m tests.viewer_study [--campaigns N] [--loads LIST] [--seed N] [--out DIR]

Campaigns of equal servers run by turns with a page open and without. The ratio must be the same
within 0.2 %, and neither its spread nor the number of rejected trials may grow. It ends with 3
where a bound is exceeded, and with 4 where one cannot be decided.
"""

import argparse
import sys
from pathlib import Path

from jissoku.cli.frame import version_line
from jissoku.cli.progress import ProgressDisplay
from jissoku.cli.self_test import bounds_code
from jissoku.measure.selection import folder_for
from jissoku.measure.self_test import SelfTestConfig
from jissoku.model import LoadLevel
from jissoku.system import cores
from jissoku.system.measurement_lock import measurement_lock
from jissoku.targets.supervisor import supervisor
from tests.viewer_study.campaigns import run_viewer_test, viewer_checks
from tests.viewer_study.open_page import open_page


def main() -> int:
    """Measures, and prints a line for each bound."""
    words = argparse.ArgumentParser(prog="python -m tests.viewer_study")
    words.add_argument("--campaigns", type=int, default=20, help="of each kind")
    words.add_argument("--loads", default="medium", help="light, medium, heavy")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--out", type=Path, help="where records go")
    asked = words.parse_args()
    config = SelfTestConfig(
        campaigns=asked.campaigns,
        levels=tuple(LoadLevel(name) for name in asked.loads.split(",")),
        seed=asked.seed,
        cores=cores.partition_cores(cores.available_cores()),
        folder=asked.out or folder_for("viewer-study"),
        version=version_line(),
    )
    with measurement_lock("viewer_study"), ProgressDisplay() as show:
        supervisor()
        found = run_viewer_test(config, open_page, show)
    rows = viewer_checks(found)
    for row in rows:
        line = f"{row.series}, {row.campaigns} campaigns: {row.result} ({row.bound}): {row.state}"
        sys.stdout.write(f"{line}\n")
    return bounds_code({row.state for row in rows}) if found.is_finished else 130


if __name__ == "__main__":
    sys.exit(main())
