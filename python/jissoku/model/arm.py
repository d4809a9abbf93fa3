"""A target in one configuration."""

import re
from enum import StrEnum

import msgspec


class Origin(StrEnum):
    """How an arm was given: by recipe, command or URL."""

    RECIPE = "recipe"
    COMMAND = "command"
    URL = "url"


def short_version(reported: str) -> str:
    """The version number in a program's report: `2.8.7` of `2.8.7, Python 3.11.7`."""
    return re.split(r"[\s,]", reported, maxsplit=1)[0]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """A target in one configuration, as it is written into a run's header.

    Attributes:
        name: Unique name in a run.
        target: The recipe's name; for a command or URL the arm's own name.
        version: As reported by the target's own program.
        command: The start command with its placeholders ({port}, {app}, ...) unfilled, so that no
            path of one machine is published.
        binary_sha256: Hash of the program file that was started; empty for a URL.
        source_sha256: Of a program that its recipe compiles: hash of the sources and of the
            commands that compile them; of the floor: hash of its sources. It stays the same where
            compilers differ; else empty.
        config_sha256: Hash of its configuration files and environment, with their placeholders;
            empty in older records.
        description: From the recipe.
    """

    name: str
    target: str
    origin: Origin
    version: str
    command: tuple[str, ...] = ()
    binary_sha256: str = ""
    source_sha256: str = ""
    config_sha256: str = ""
    description: str = ""
    limitations: str = ""


class UnavailableTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target that is not available here, the reason, and the command that installs it."""

    name: str
    reason: str
    install_hint: str

    @property
    def sentence(self) -> str:
        """The reason and the command, in one sentence."""
        return f"{self.name} is not available here: {self.reason}. To add it: {self.install_hint}"
