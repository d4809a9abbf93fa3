"""Resumes a run of several machines, and is killed: `python -m tests.fleet.resumed RUN VERSION`.

It prints a line before it begins, and others as it measures.
"""

import sys
from pathlib import Path

from jissoku.fleet.machines import measure_machines, resumed_plan


def note(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    plan = resumed_plan(Path(sys.argv[1]), sys.argv[2])
    note("ready")
    measure_machines([plan], note, is_resumed=True)
