"""The command line. The only place that prints.

`serve`, `lab`, `load`, `floor`, `oracle`, `sample`, `store` and `check` are native: they run
without importing the lab, so that it affects neither memory nor start-up time of a server.
"""

import signal
import sys

NATIVE = {"serve", "lab", "load", "floor", "oracle", "sample", "store", "check", "routes", "wrk"}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in NATIVE:
        _native()
    if len(sys.argv) > 1 and sys.argv[1] in {"completions", "man"}:
        from jissoku.cli import completions  # noqa: PLC0415 - imports the lab

        completions.main()
    from jissoku.cli.commands import run  # noqa: PLC0415 - the lab's imports take a second

    run()


def _native() -> None:
    from jissoku._native import run  # noqa: PLC0415 - so that the lab's commands can report a missing module

    # Python's handler only sets a flag, which is not checked while native code runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run(["jissoku", *sys.argv[1:]]))
