"""Command lines that are run without a shell, split into words."""

import re
import shlex

from jissoku.errors import InputError

# Text that the shell takes literally, and text in which it expands variables only.
QUOTED = re.compile(r"'[^']*'|\\.|\"(?P<expanded>(?:[^\"\\]|\\.)*)\"", re.DOTALL)
ESCAPED = re.compile(r"\\.", re.DOTALL)

OPERATOR = re.compile(r"[();<>|&]+")
EXPANSION = re.compile(r"`|\$[\w({@*#?!$-]", re.ASCII)


def plain_words(text: str, option: str) -> list[str]:
    """Splits a command line by the quoting rules of a shell.

    Args:
        text: The command line.
        option: The option that it was given with, for messages.

    Raises:
        InputError: Its quotes do not match, or it has something that only a shell understands:
            operators, redirections, variables, command substitution.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r} cannot be split into words: {error}") from error
    bare = QUOTED.sub(" ", text)
    quoted = [one["expanded"] or "" for one in QUOTED.finditer(text)]
    expanded = ESCAPED.sub(" ", " ".join([bare, *quoted]))
    found = OPERATOR.search(bare) or EXPANSION.search(expanded)
    if found is not None:
        raise InputError(
            f"{option} {text!r} is run without a shell, and {found[0]!r} needs one: write"
            f" {shlex.join(['sh', '-c', text])}, or put quotes around it if it is an argument"
        )
    return words
