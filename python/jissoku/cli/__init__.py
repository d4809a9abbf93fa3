"""The command line. The only place that prints.

`serve`, `load`, `floor`, `oracle`, `sample` and `routes` are native: they run before anything else
of the lab is imported, so that a server's memory and start-up are its own.
"""

import signal
import sys

NATIVE = {"serve", "load", "floor", "oracle", "sample", "wrk", "routes"}


def main() -> None:
    """Runs `jissoku VERB ...` and exits with its code."""
    if len(sys.argv) > 1 and sys.argv[1] in NATIVE:
        _native()
    from jissoku.cli.commands import run  # noqa: PLC0415 - the lab's imports take a second

    run()


def _native() -> None:
    from jissoku._native import run  # noqa: PLC0415 - so that the lab's verbs can say what is missing

    # Python's handler would only set a flag, which is not read while native code runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run(["jissoku", *sys.argv[1:]]))
