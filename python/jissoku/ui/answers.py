"""From a command that would answer a question to the form that starts it."""

import shlex
from dataclasses import dataclass

# Options of the commands that `stats.run_difference` makes, and the fields of the form.
FIELDS = {"--path": "path", "-c": "connections", "-R": "rate"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A command, and what a form sends to start it.

    Attributes:
        fields: None if it names a command or a URL, which forms do not contain.
    """

    command: str
    fields: tuple[tuple[str, str], ...] | None


def answering(command: str) -> Answer:
    """The form for a command `jissoku compare ...`."""
    program, compare, *words = shlex.split(command)
    fields: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        if word in FIELDS:
            fields.append((FIELDS[word], next(rest, "")))
        elif word.startswith("-"):
            return Answer(command, None)
        else:
            fields.append(("target", word))
    is_comparison = (program, compare) == ("jissoku", "compare")
    return Answer(command, tuple(fields) if is_comparison else None)
