"""Enables keep-alive between nginx and its upstream servers.

All of three settings are needed: `keepalive` in the upstream block, HTTP/1.1, and no
`Connection: close`, which nginx sends by default (ngx_http_upstream_module).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.model import KnobChange
from jissoku.targets.nginx_config import Configuration, Directive, Edit
from jissoku.targets.nginx_text import appended, inserted, replaced

VERSION = "proxy_http_version"
HEADER = "proxy_set_header"
EMPTY = f'{HEADER} Connection "";'

# Values that prevent keep-alive, which are replaced. Any other value is intended by the user, for
# example for WebSockets, and its location is left unchanged.
VERSION_OLD = "1.0"
CLOSE = "close"

CONDITIONS = frozenset({"if", "limit_except"})

Place = tuple[Path, int]


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """A proxy_pass to an upstream: the blocks around it, and the upstream's block."""

    enclosing: tuple[Directive, ...]
    upstream: Directive


def proxy_routes(configuration: Configuration) -> Iterator[ProxyRoute]:
    """All proxy_pass directives that name an upstream block."""
    upstreams = {
        directive.words[0]: directive
        for above, directive in configuration.walk()
        if directive.name == "upstream" and [one.name for one in above] == ["http"]
    }
    for above, directive in configuration.walk():
        if directive.name == "proxy_pass" and above and above[0].name == "http":
            scheme, _, rest = directive.words[0].partition("://")
            name = rest.partition("/")[0]
            if scheme in {"http", "https"} and name in upstreams:
                yield ProxyRoute(_settable(above), upstreams[name])


def _settable(above: tuple[Directive, ...]) -> tuple[Directive, ...]:
    """Without `if` and `limit_except`, which may have a proxy_pass but none of the settings."""
    last = max(index for index, block in enumerate(above) if block.name not in CONDITIONS)
    return above[: last + 1]


def enable_keepalive(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Enables keep-alive for every upstream, with `value` idle connections per worker."""
    inner = _children(configuration)
    for hop in proxy_routes(configuration):
        header = _header(configuration, hop.enclosing, inner)
        if header is None:
            continue
        yield from header
        yield from _version(configuration, hop.enclosing, inner)
        if not _named(inner, hop.upstream, "keepalive"):
            # After the load balancing method, which it has to follow.
            yield appended(configuration, hop.upstream, f"keepalive {change.value};")


def _header(
    configuration: Configuration,
    above: Sequence[Directive],
    inner: Mapping[Place, Sequence[Directive]],
) -> list[Edit] | None:
    """The edit that clears the Connection field; None where it is set already.

    Fields are inherited only by blocks that set none, so another one goes next to existing ones.
    """
    for block in reversed(above):
        fields = _named(inner, block, HEADER)
        if not fields:
            continue
        mine = [one for one in fields if one.words[0].lower() == "connection"]
        if not mine:
            return [inserted(configuration, block, EMPTY)]
        if any(one.words[1].lower() not in {"", CLOSE} for one in mine):
            return None
        return [replaced(one, EMPTY) for one in mine if one.words[1]]
    return [inserted(configuration, above[-1], EMPTY)]


def _version(
    configuration: Configuration,
    above: Sequence[Directive],
    inner: Mapping[Place, Sequence[Directive]],
) -> Iterator[Edit]:
    wanted = f"{VERSION} 1.1;"
    for block in reversed(above):
        for stands in _named(inner, block, VERSION):
            if stands.words[0] == VERSION_OLD:
                yield replaced(stands, wanted)
            return
    yield inserted(configuration, above[-1], wanted)


def _children(configuration: Configuration) -> dict[Place, list[Directive]]:
    """The directives of each block, with those of included files."""
    found: dict[Place, list[Directive]] = defaultdict(list)
    for above, directive in configuration.walk():
        if above:
            found[above[-1].file, above[-1].start].append(directive)
    return found


def _named(
    inner: Mapping[Place, Sequence[Directive]], block: Directive, name: str
) -> list[Directive]:
    return [one for one in inner.get((block.file, block.start), ()) if one.name == name]
