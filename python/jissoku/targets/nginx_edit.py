"""Edits of an nginx configuration: what a knob's changes do to its text."""

from collections.abc import Callable, Iterator

from jissoku.model import Change, Knob, What
from jissoku.targets import nginx_hop, nginx_listen
from jissoku.targets.nginx_config import Configuration, Directive, Edit
from jissoku.targets.nginx_place import extended, inserted, replaced

MAIN = "main"

# As many workers as there are cores: nginx's own word, and the lab's hole, masked or not.
AS_MANY_AS_CORES = frozenset({"auto", "{workers}", "\x01workers\x02"})


def switch(configuration: Configuration, knob: Knob) -> Configuration:
    """The configuration with a knob switched; itself when it is so already."""
    for change in knob.change:
        if change.what in EDITS:
            configuration = configuration.edited(EDITS[change.what](configuration, change))
    return configuration


def unfit(configuration: Configuration, knob: Knob, cores: int) -> str:
    """Why a knob can do nothing here, as the end of a sentence on it; empty where it can."""
    if not all(change.what in EDITS for change in knob.change):
        return "is no directive"
    if _workers(configuration, cores) < knob.workers_min:
        return "is for several workers, and there is one"
    for change in knob.change:
        if change.what is What.UPSTREAM and not any(nginx_hop.hops(configuration)):
            return "is for requests that are passed on to an upstream block, and there are none"
        if change.what is What.LISTEN and not nginx_listen.addresses(configuration):
            return "is for a listen directive with a TCP address, and there is none"
    return ""


def _workers(configuration: Configuration, cores: int) -> int:
    found = 1
    for above, directive in configuration.walk():
        if directive.name == "worker_processes" and not above:
            (word,) = directive.words
            found = cores if word in AS_MANY_AS_CORES else int(word)
    return found


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
        # Its second word is the name of a format, whatever it looks like.
        named = "combined " if change.name == "access_log" and len(directive.words) == 1 else ""
        yield extended(configuration, directive, f"{named}{change.value}")


def _missing(configuration: Configuration, change: Change) -> Iterator[Edit]:
    """Sets a directive in its block, unless it stands there: then somebody has thought about it."""
    stands = any(
        directive.name == change.name and _within([outer.name for outer in above], change.where)
        for above, directive in configuration.walk()
    )
    if not stands:
        yield from setting(configuration, change)


def _is_plain_file(log: Directive) -> bool:
    """Only a log to a file that is named outright can be buffered (ngx_http_log_module)."""
    return (
        bool(log.words)
        and not log.words[0].startswith(("syslog:", "/dev/"))
        and ("$" not in log.words[0])
    )


def _path(where: str) -> list[str]:
    return [] if where == MAIN else [where]


def _within(names: list[str], where: str) -> bool:
    return names == [] if where == MAIN else names[:1] == [where]


# All kinds of changes that are made to the text of a configuration.
EDITS: dict[What, Callable[[Configuration, Change], Iterator[Edit]]] = {
    What.DIRECTIVE: setting,
    What.APPEND: _appending,
    What.MISSING: _missing,
    What.LISTEN: nginx_listen.adding,
    What.UPSTREAM: nginx_hop.keeping,
}
