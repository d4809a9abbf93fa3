"""Instructions and system calls of a request: see `python -m tests.instruction_study --help`."""
