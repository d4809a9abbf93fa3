"""Exit codes, the same for every command."""

OK = 0
FAILED = 1
BAD_INPUT = 2
BOUND_EXCEEDED = 3
UNDECIDED = 4
INTERRUPTED = 130
