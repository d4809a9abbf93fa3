"""The sentences of warnings, checks and remarks, which are data: `texts.toml`."""

import tomllib
from importlib.resources import files
from typing import Any

TEXTS: dict[str, dict[str, Any]] = tomllib.loads(
    files("jissoku.inference").joinpath("texts.toml").read_text(encoding="utf-8")
)


def said(part: str, name: str, /, **values: object) -> str:
    """A sentence with these values."""
    found: str = TEXTS[part][name]
    return found.format(**values)
