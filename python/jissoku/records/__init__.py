"""What is on disk: one folder a run, one line a trial, readable for ever."""

from jissoku.records.store import Store, read
from jissoku.records.sweep import read_sweep, write_sweep

__all__ = ["Store", "read", "read_sweep", "write_sweep"]
