"""A target in one configuration."""

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Where an arm comes from."""

    RECIPE = "recipe"
    COMMAND = "command"
    URL = "url"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A target in one configuration, as it is written into a run's header.

    Attributes:
        name: What the user and every table call it; unique in a run.
        target: The recipe's name; for a command or URL the arm's own name.
        version: The receipt: what the target's own program said of its version.
        command: The start command with its placeholders ({port}, {app}, ...) unfilled, so that no
            path of one machine is published.
        binary_sha256: Hash of the program file that was started; empty for a URL.
        essay: What it is and what it leaves out, from the recipe.
    """

    name: str
    target: str
    origin: Origin
    version: str
    command: tuple[str, ...] = ()
    binary_sha256: str = ""
    essay: str = ""
    leaves_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A target that cannot be raced here, why, and the one command that would add it."""

    name: str
    reason: str
    remedy: str

    @property
    def sentence(self) -> str:
        """All of it in words."""
        return f"{self.name} cannot be raced here: {self.reason}. To add it: {self.remedy}"
