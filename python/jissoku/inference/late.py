"""Libraries that are imported when they are first used.

numpy and scipy take a second, which the sentence about a wrong argument does not need.
"""

import importlib
from typing import Any, ClassVar


class LateModule:
    """Stands for a module until it is used."""

    names: ClassVar[set[str]] = set()

    def __init__(self, name: str) -> None:
        """Imports nothing yet."""
        self._name = name
        self.names.add(name)

    def __getattr__(self, name: str) -> Any:
        """Imports the module."""
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


def import_libraries() -> None:
    """Imports them all, before what must not be disturbed by it."""
    for name in LateModule.names:
        importlib.import_module(name)
