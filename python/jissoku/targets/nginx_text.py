"""Positions in the text of an nginx configuration: of a directive, or inside a block."""

from jissoku.targets.nginx_config import Configuration, Directive, Edit

INDENT = "    "


def replaced(directive: Directive, text: str) -> Edit:
    """Replaces a directive by `text`; empty text removes it."""
    return Edit(file=directive.file, start=directive.start, end=directive.end, text=text)


def extended(configuration: Configuration, directive: Directive, words: str) -> Edit:
    """Appends words to a simple directive; its other words stay as written."""
    kept = configuration.texts[directive.file][directive.start : directive.end - 1].rstrip()
    return replaced(directive, f"{kept} {words};")


def inserted(configuration: Configuration, block: Directive | None, text: str) -> Edit:
    """Inserts a line at the beginning of a block, or of the main file."""
    if block is None:
        return Edit(file=configuration.main, start=0, end=0, text=f"{text}\n")
    assert block.body is not None, "only a block is inserted into"
    indent = _indent(configuration, block)
    lead = " " if indent is None else f"\n{indent}"
    return Edit(file=block.file, start=block.body, end=block.body, text=f"{lead}{text}")


def appended(configuration: Configuration, block: Directive, text: str) -> Edit:
    """Appends a line to a block."""
    indent = _indent(configuration, block)
    if not block.inner:
        return inserted(configuration, block, text)
    at = block.inner[-1].end
    # A comment on the last line stays on it.
    line_end = configuration.texts[block.file].find("\n", at, block.end - 1)
    if indent is not None and line_end >= 0:
        return Edit(file=block.file, start=line_end, end=line_end, text=f"\n{indent}{text}")
    return Edit(file=block.file, start=at, end=at, text=f" {text}")


def _indent(configuration: Configuration, block: Directive) -> str | None:
    """The indentation of a block's lines; None for a block on one line."""
    assert block.body is not None, "only a block has lines"
    if not block.inner:
        return INDENT
    before = configuration.texts[block.file][block.body : block.inner[0].start]
    return (before.rpartition("\n")[2] or INDENT) if "\n" in before else None
