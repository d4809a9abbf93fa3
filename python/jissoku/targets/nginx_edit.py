"""Edits of an nginx configuration: set a directive, add words to it, take it out."""

from collections.abc import Iterator

from jissoku.model import Change, Knob, What
from jissoku.targets.nginx_config import Configuration, Directive, Edit

MAIN = "main"

INDENT = "    "


def switch(configuration: Configuration, knob: Knob) -> Configuration:
    """The configuration with a knob switched; itself when it is so already."""
    for change in knob.change:
        if change.what is What.DIRECTIVE:
            configuration = configuration.edited(setting(configuration, change))
        elif change.what is What.APPEND:
            configuration = configuration.edited(_appending(configuration, change))
    return configuration


def setting(configuration: Configuration, change: Change) -> Iterator[Edit]:
    """Sets a directive wherever it stands within a block, and in the block itself if it does not.

    A directive in an inner block hides the outer one, so setting only the outer one would do
    nothing.
    """
    stands = False
    block = None
    for above, directive in configuration.walk():
        names = [outer.name for outer in above]
        if directive.name == change.where and not above:
            block = directive
        if directive.name != change.name or not _within(names, change.where):
            continue
        stands = stands or names == _path(change.where)
        if " ".join(directive.words) != change.value:
            yield replaced(directive, f"{change.name} {change.value};")
    if (
        not stands
        and change.value != change.default
        and (block is not None or change.where == MAIN)
    ):
        yield inserted(configuration, block, f"{change.name} {change.value};")


def _appending(configuration: Configuration, change: Change) -> Iterator[Edit]:
    """Adds words to a directive that does something and has none of their names yet."""
    added = [word for word in change.value.split() if "=" in word]
    names = tuple(word.partition("=")[0] + "=" for word in added)
    for _, directive in configuration.walk():
        if directive.name != change.name or directive.words[:1] == ("off",):
            continue
        if any(word.startswith(names) for word in directive.words):
            continue
        if change.name == "access_log" and not _is_plain_file(directive):
            continue
        kept = configuration.texts[directive.file][directive.start : directive.end - 1].rstrip()
        # Its second word is the name of a format, whatever it looks like.
        named = " combined" if change.name == "access_log" and len(directive.words) == 1 else ""
        yield replaced(directive, f"{kept}{named} {change.value};")


def _is_plain_file(log: Directive) -> bool:
    """Only a log to a file that is named outright can be buffered (ngx_http_log_module)."""
    return (
        bool(log.words)
        and not log.words[0].startswith(("syslog:", "/dev/"))
        and ("$" not in log.words[0])
    )


def replaced(directive: Directive, text: str) -> Edit:
    """Puts `text` where a directive stands; nothing takes it out."""
    return Edit(file=directive.file, start=directive.start, end=directive.end, text=text)


def inserted(configuration: Configuration, block: Directive | None, text: str) -> Edit:
    """Puts a line at the beginning of a block, or of the main file."""
    if block is None:
        return Edit(file=configuration.main, start=0, end=0, text=f"{text}\n")
    assert block.body is not None, "only a block is inserted into"
    indent = INDENT
    if block.inner and block.inner[0].file == block.file:
        before = configuration.texts[block.file][block.body : block.inner[0].start]
        if "\n" not in before:
            return Edit(file=block.file, start=block.body, end=block.body, text=f" {text}")
        indent = before.rpartition("\n")[2] or INDENT
    return Edit(file=block.file, start=block.body, end=block.body, text=f"\n{indent}{text}")


def _path(where: str) -> list[str]:
    return [] if where == MAIN else [where]


def _within(names: list[str], where: str) -> bool:
    return names == [] if where == MAIN else names[:1] == [where]
