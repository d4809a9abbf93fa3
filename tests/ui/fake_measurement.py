"""Stands for `jissoku compare` and other commands: events and end come from a pipe, by line.

    python fake_measurement.py PIPE compare --out=FOLDER ...

Each line of the pipe is appended to the events; `records FOLDER` copies a run's records,
`exit CODE` ends it. SIGINT ends it with 130, as a measurement, and so does the end of the process
that has started it: a test that was killed writes to no pipe.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from threading import Thread

LOOK_S = 1.0


def end_with(parent: int) -> None:
    """Interrupts this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    Thread(target=end_with, args=[os.getppid()], daemon=True).start()
    pipe, *arguments = sys.argv[1:]
    # `publish` names its folder without an option.
    out = next((one for one in arguments if one.startswith("--out=")), arguments[1])
    folder = Path(out.removeprefix("--out="))
    folder.mkdir(parents=True)
    sys.stderr.write(f"arguments: {' '.join(arguments)}\n")
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    sys.stderr.write(f"class {os.sched_getscheduler(0)}, cores {cores}\n")
    try:
        with Path(pipe).open() as lines:
            for line in lines:
                word, _, rest = line.strip().partition(" ")
                if word == "exit":
                    return int(rest)
                if word == "records":
                    shutil.copytree(rest, folder, dirs_exist_ok=True)
                else:
                    with (folder / "events.jsonl").open("a") as events:
                        events.write(line)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
