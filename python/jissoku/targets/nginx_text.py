"""Positions in the text of an nginx configuration: of a directive, or inside a block."""

from jissoku.targets.nginx_config import Configuration, Directive, Edit

INDENT = "    "


def replaced(directive: Directive, text: str) -> Edit:
    """Puts `text` where a directive stands; nothing takes it out."""
    return Edit(file=directive.file, start=directive.start, end=directive.end, text=text)


def extended(configuration: Configuration, directive: Directive, words: str) -> Edit:
    """Puts words behind those of a simple directive, which stay as they are written."""
    kept = configuration.texts[directive.file][directive.start : directive.end - 1].rstrip()
    return replaced(directive, f"{kept} {words};")


def inserted(configuration: Configuration, block: Directive | None, text: str) -> Edit:
    """Puts a line at the beginning of a block, or of the main file."""
    if block is None:
        return Edit(file=configuration.main, start=0, end=0, text=f"{text}\n")
    assert block.body is not None, "only a block is inserted into"
    indent = _indent(configuration, block)
    lead = " " if indent is None else f"\n{indent}"
    return Edit(file=block.file, start=block.body, end=block.body, text=f"{lead}{text}")


def appended(configuration: Configuration, block: Directive, text: str) -> Edit:
    """Puts a line behind the last one of a block."""
    indent = _indent(configuration, block)
    if not block.inner:
        return inserted(configuration, block, text)
    at = block.inner[-1].end
    # A comment on the last line stays there.
    line_end = configuration.texts[block.file].find("\n", at, block.end - 1)
    if indent is not None and line_end >= 0:
        return Edit(file=block.file, start=line_end, end=line_end, text=f"\n{indent}{text}")
    return Edit(file=block.file, start=at, end=at, text=f" {text}")


def _indent(configuration: Configuration, block: Directive) -> str | None:
    """How lines of a block begin; None for a block that is one line."""
    assert block.body is not None, "only a block has lines"
    if not block.inner:
        return INDENT
    before = configuration.texts[block.file][block.body : block.inner[0].start]
    return (before.rpartition("\n")[2] or INDENT) if "\n" in before else None
