"""Plain text as Markdown."""

import re

SPECIAL = re.compile(r"[\\*_<>\[\]{}|#$~^]")


def escaped(text: str) -> str:
    """The text as it is, with options and what stands in backticks as code."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--[a-z][\w-]*)", text)
    return "".join(
        f"`{part.strip('`')}`" if index % 2 else SPECIAL.sub(r"\\\g<0>", part).replace("`", "\\`")
        for index, part in enumerate(parts)
    )


def cell(text: str) -> str:
    """Markdown for the cell of a table."""
    return " ".join(re.sub(r"(?<!\\)\|", r"\\|", text).split())


def table(*rows: tuple[str, ...]) -> str:
    """Rows of Markdown, of which the first is the heading, that are lines on a narrow screen."""
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    text = "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)
    return f"```{{table}}\n:class: reference\n\n{text}\n```\n"
