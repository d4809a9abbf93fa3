"""The index of runs: a cache made from their records, which may be deleted at any time."""
