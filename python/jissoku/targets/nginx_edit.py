"""Edits of an nginx configuration: applies a knob's changes to its text."""

from collections.abc import Callable, Iterator

from jissoku.model import ChangeKind, Knob, KnobChange
from jissoku.targets import nginx_listen, nginx_upstream
from jissoku.targets.nginx_config import Configuration, Directive, Edit
from jissoku.targets.nginx_text import extended, inserted, replaced

MAIN = "main"

# One worker per core: nginx's keyword, and the lab's placeholder, escaped or not.
AS_MANY_AS_CORES = frozenset({"auto", "{workers}", "\x01workers\x02"})


def switch(configuration: Configuration, knob: Knob) -> Configuration:
    """The configuration with a knob switched; unchanged if it is set already."""
    for change in knob.change:
        if change.kind in EDITS:
            configuration = configuration.edited(EDITS[change.kind](configuration, change))
    return configuration


def unfit(configuration: Configuration, knob: Knob, cores: int) -> str:
    """Why a knob has no effect here, as the end of a sentence; empty if it has one."""
    if not all(change.kind in EDITS for change in knob.change):
        return "is not a directive"
    if _workers(configuration, cores) < knob.workers_min:
        return "is for several workers, and there is one"
    if knob.needs and not _is_set(configuration, knob.needs):
        return f"needs `{knob.needs}`, which is not set"
    for change in knob.change:
        if change.kind is ChangeKind.UPSTREAM and not any(
            nginx_upstream.proxy_routes(configuration)
        ):
            return "is for requests that are passed on to an upstream block, and there are none"
        if change.kind is ChangeKind.LISTEN and not nginx_listen.addresses(configuration):
            return "is for a listen directive with a TCP address, and there is none"
    return ""


def _is_set(configuration: Configuration, directive: str) -> bool:
    return any(
        directive in {found.name, " ".join((found.name, *found.words))}
        for _, found in configuration.walk()
    )


def _workers(configuration: Configuration, cores: int) -> int:
    found = 1
    for above, directive in configuration.walk():
        if directive.name == "worker_processes" and not above:
            (word,) = directive.words
            found = cores if word in AS_MANY_AS_CORES else int(word)
    return found


def setting(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Sets a directive wherever it occurs within a block, else in the block itself.

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


def _appending(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Adds words to a directive that is not off and has none of their names yet."""
    added = [word for word in change.value.split() if "=" in word]
    names = tuple(word.partition("=")[0] + "=" for word in added)
    for _, directive in configuration.walk():
        if directive.name != change.name or directive.words[:1] == ("off",):
            continue
        if any(word.startswith(names) for word in directive.words):
            continue
        if change.name == "access_log" and not _is_plain_file(directive):
            continue
        # Its second word is the name of a format, even if it looks like a parameter.
        named = "combined " if change.name == "access_log" and len(directive.words) == 1 else ""
        yield extended(configuration, directive, f"{named}{change.value}")


def _missing(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Sets a directive in its block, unless it is set there already."""
    stands = any(
        directive.name == change.name and _within([outer.name for outer in above], change.where)
        for above, directive in configuration.walk()
    )
    if not stands:
        yield from setting(configuration, change)


def _is_plain_file(log: Directive) -> bool:
    """Only a log to a file without variables in its name can be buffered (ngx_http_log_module)."""
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
EDITS: dict[ChangeKind, Callable[[Configuration, KnobChange], Iterator[Edit]]] = {
    ChangeKind.DIRECTIVE: setting,
    ChangeKind.APPEND: _appending,
    ChangeKind.MISSING: _missing,
    ChangeKind.LISTEN: nginx_listen.add_listen_parameter,
    ChangeKind.UPSTREAM: nginx_upstream.enable_keepalive,
}
