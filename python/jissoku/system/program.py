"""The command that starts this installation again, for processes of its own."""

import sys

PROGRAM = (sys.executable, "-m", "jissoku")
