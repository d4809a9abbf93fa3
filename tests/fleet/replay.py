"""Stands for `jissoku compare` where a campaign is tested: it writes a record that there is.

    replay.py SOURCE STEPS compare --out FOLDER ...

With STEPS, a file, it writes as many lines as the file has bytes, and waits for more; without, all.
As a comparison does, it ends early after SIGINT, and says so.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

LOOK_S = 0.005


class InterruptedHereError(Exception):
    pass


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise InterruptedHereError


def main() -> int:
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    source, steps, words = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    folder = Path(words[words.index("--out") + 1])
    folder.mkdir(parents=True)
    (folder / "unfinished.txt").write_text("it is still being measured")
    (folder / "run.json").write_bytes((source / "run.json").read_bytes())
    lines = (source / "trials.jsonl").read_bytes().splitlines(keepends=True)
    try:
        with (folder / "trials.jsonl").open("xb", buffering=0) as file:
            for number, line in enumerate(lines):
                while steps and Path(steps).stat().st_size <= number:
                    time.sleep(LOOK_S)
                file.write(line)
                os.fsync(file.fileno())
    except InterruptedHereError:
        (folder / "unfinished.txt").write_text("it was interrupted in block 2")
        return 130
    (folder / "unfinished.txt").unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
