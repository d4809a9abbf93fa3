"""The number of CPUs, for commands that need no library."""

import os


def cpu_count() -> int:
    """What `os.cpu_count` says, or 1."""
    return os.cpu_count() or 1
