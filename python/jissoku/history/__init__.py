"""The index of runs: a cache of what their records hold."""
