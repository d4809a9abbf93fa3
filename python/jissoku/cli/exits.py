"""Exit codes, the same for every verb."""

FINE = 0
FAILED = 1
BAD_INPUT = 2
BOUND_BROKEN = 3
UNDECIDED = 4
INTERRUPTED = 130
