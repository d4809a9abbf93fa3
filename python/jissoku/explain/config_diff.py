"""What a finding's settings change in a configuration, as a diff."""

import difflib
import re
from collections.abc import Iterable

from jissoku.model.explanation import SuggestedDirective

INDENT = "    "


def diff(config: str, settings: Iterable[SuggestedDirective], program: str, name: str) -> str:
    """Writes the changes to a file as a diff; empty if none is needed or known.

    Args:
        config: The file's text.
        settings: Those for other programs than `program` are ignored.
        name: The file's, for the diff's head.
    """
    changed = config
    for setting in settings:
        if setting.program == program:
            changed = _with(changed, setting)
    lines = difflib.unified_diff(
        config.splitlines(keepends=True), changed.splitlines(keepends=True), name, name, n=1
    )
    return "".join(lines)


def _with(config: str, setting: SuggestedDirective) -> str:
    """A configuration with one line replaced, or added at the head of its block."""
    wanted = f"{setting.directive} {setting.value};"
    # A recipe's value may be a placeholder in braces.
    value = r"(?:[^;{}]|{\w+})*"
    present = re.compile(rf"^([ \t]*){re.escape(setting.directive)}[ \t]{value};", re.MULTILINE)
    if present.search(config):
        return present.sub(lambda found: found[1] + wanted, config)
    if setting.block == "main":
        return f"{wanted}\n{config}"
    opening = re.compile(rf"^([ \t]*){re.escape(setting.block)}\b[^{{;\n]*{{[^\n]*\n", re.MULTILINE)
    return opening.sub(lambda found: f"{found[0]}{found[1]}{INDENT}{wanted}\n", config, count=1)
