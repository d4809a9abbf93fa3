"""What is on disk: one folder a run, one line a trial, readable for ever."""

from jissoku.records.store import Store, read

__all__ = ["Store", "read"]
