"""Records on disk: one folder per run, one line per trial."""

from jissoku.records.run_folder import RunWriter, read, unfinished_reason
from jissoku.records.sweep import read_sweep, write_sweep

__all__ = ["RunWriter", "read", "read_sweep", "unfinished_reason", "write_sweep"]
