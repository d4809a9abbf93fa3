"""Records on disk: one folder per run, one line per trial."""

from jissoku.records.profile import read_profiles, write_profiles
from jissoku.records.run_folder import RunWriter, read, unfinished_reason
from jissoku.records.sweep import read_sweep, write_sweep

__all__ = [
    "RunWriter",
    "read",
    "read_profiles",
    "read_sweep",
    "unfinished_reason",
    "write_profiles",
    "write_sweep",
]
