"""From observations to causes, and what their remedies change in a configuration."""

import difflib
import re
from collections.abc import Iterable

from jissoku.explain.causes import CAUSES, cpu_findings
from jissoku.explain.rules import RULES
from jissoku.model.explanation import Finding, Observations, SuggestedDirective

INDENT = "    "


def findings(observed: Observations) -> tuple[Finding, ...]:
    """All causes that the observations support, those that usually cost most first."""
    found = [finding for rule in RULES if (finding := rule(observed)) is not None]
    found += cpu_findings(observed.profile)
    order = list(CAUSES)
    return tuple(sorted(found, key=lambda finding: order.index(finding.name)))


def diff(config: str, settings: Iterable[SuggestedDirective], program: str, name: str) -> str:
    """The changes to a file of this name as a diff; empty if none is needed or known.

    Settings for other programs than `program` are ignored.
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
