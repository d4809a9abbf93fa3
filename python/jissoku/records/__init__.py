"""Records on disk: one folder per run, one line per trial."""

from jissoku.records.run_folder import (
    RunWriter,
    read,
    read_profiles,
    read_sweep,
    unfinished_reason,
    write_profiles,
    write_sweep,
)

__all__ = [
    "RunWriter",
    "read",
    "read_profiles",
    "read_sweep",
    "unfinished_reason",
    "write_profiles",
    "write_sweep",
]
