"""Measures whether profiles are right: shares, differences, overhead, causes, clean servers.

python -m tests.profile_study [GROUP...] [--only TEXT] [--seconds S] [--plan] [--file FILE]

Runs of all checks take turns, so that an early end leaves as many of each. What is kept is
continued.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.profile_study import all_checks, table
from tests.profile_study.checks import Kept, minutes, missing
from tests.profile_study.injected import ToolMissing

STUDY = Path(__file__).parents[2] / "records" / "profiles" / "study.jsonl"


def main() -> int:
    """Ends with 1 where a bound is broken."""
    words = argparse.ArgumentParser(prog="python -m tests.profile_study", description=__doc__)
    words.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    words.add_argument("--only", default="", help="checks whose key holds this")
    words.add_argument("--seconds", type=float, default=1e9, help="end after so long")
    words.add_argument("--plan", action="store_true", help="print the minutes that are missing")
    words.add_argument("--file", type=Path, default=STUDY, help="where runs are kept")
    asked = words.parse_args()
    kept = Kept.read(asked.file)
    groups = set(asked.groups) or {check.group for check in all_checks.CHECKS}
    chosen = [one for one in all_checks.CHECKS if one.group in groups and asked.only in one.key]
    if asked.plan:
        for group in dict.fromkeys(check.group for check in chosen):
            of_group = [check for check in chosen if check.group == group]
            sys.stdout.write(f"{group}: {minutes(of_group, kept):.0f} minutes\n")
        return 0
    end = time.monotonic() + asked.seconds
    while waiting := [one for one in chosen if missing(one, kept)]:
        check = max(waiting, key=lambda one: missing(one, kept) / one.runs)
        if time.monotonic() + check.seconds > end:
            break
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = check.measure(len(kept.of(check)), Path(folder))
            except ToolMissing as tool:
                sys.stderr.write(f"{check.key}: {tool} is not installed\n")
                chosen.remove(check)
                continue
        kept.add(check, found)
        sys.stderr.write(f"{check.key}: {dict(found)}\n")
    sys.stdout.write(table.text(chosen, kept))
    broken = [check.key for check in chosen if table.is_broken(check, kept)]
    sys.stderr.write("".join(f"bound broken: {key}\n" for key in broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
