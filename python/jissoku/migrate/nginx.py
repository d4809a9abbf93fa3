"""A plain configuration of nginx as one of `jissoku serve`: servers, locations, upstreams."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from jissoku.migrate.translate import ANYWHERE, Migration

# A directive as crossplane parses it.
Directive = Mapping[str, Any]

_TEXT = files("jissoku.migrate").joinpath("nginx.toml").read_text(encoding="utf-8")
_DATA = tomllib.loads(_TEXT)
DEFAULTS, FORWARDED = set(_DATA["defaults"]), set(_DATA["forwarded"])
INSTEAD, VARIABLES = _DATA["instead"], _DATA["variables"]

# What try_files may ask for before its last word.
TRIED = {"$uri", "$uri/", "$uri.html", "$uri/index.html"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "M": 2592000, "y": 31536000}
REDIRECTS = {"301", "302", "303", "307", "308"}


@dataclass(slots=True)
class Draft:
    result: Migration
    keys: dict[str, str | bool] = field(default_factory=dict)
    # Patterns of names of files, and how long they may be stored.
    cache_control: dict[str, str] = field(default_factory=dict)
    # The life of files in a folder that is not below the root, whose names are not their paths.
    of_alias: list[Directive] = field(default_factory=list)
    # Whether servers listen for connections with TLS, without, or for both.
    schemes: set[str] = field(default_factory=set)
    # Addresses, and whether each has TLS.
    listen: dict[str, bool] = field(default_factory=dict)
    upstreams: dict[str, list[str]] = field(default_factory=dict)
    routes: list[tuple[tuple[bool, bool, bool, int], list[str]]] = field(default_factory=list)

    def miss(self, directive: Directive, why: str) -> None:
        words = " ".join((directive["directive"], *directive["args"]))
        self.result.absent.append(f"line {directive['line']}, {words}: {why}")


def migrate_nginx(directives: Iterable[Directive]) -> Migration:
    draft = Draft(Migration("nginx"))
    whole = [
        directive
        for one in directives
        for directive in (one["block"] if one["directive"] == "http" else [one])
    ]
    servers = _all(whole, "server")
    defaults = _defaults(servers)
    draft.schemes = {scheme for one in servers for scheme in _schemes(one)}
    for directive in whole:
        match directive["directive"]:
            case "upstream":
                _upstream(directive, draft)
            case "server":
                schemes = [scheme for scheme, one in defaults if one is directive]
                _server(directive, draft, schemes)
            case _:
                _common(directive, draft)
    has_tls = "tls-cert" in draft.keys
    listen = [
        f"{address},plain" if has_tls and not is_tls and "unix:" not in address else address
        for address, is_tls in draft.listen.items()
    ]
    lines = [f"listen = [{', '.join(map(json.dumps, listen))}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in draft.keys.items()]
    lines += _cache_control(draft)
    for name, keys in draft.upstreams.items():
        lines += ["", f"[upstream.{json.dumps(name)}]", *keys]
    for _, written in sorted(draft.routes, key=lambda one: one[0]):
        lines += ["", "[[route]]", *written]
    draft.result.config = "\n".join(lines) + "\n"
    draft.result.words = ["--config", "serve.toml"]
    draft.result.absent = list(dict.fromkeys(draft.result.absent))
    draft.result.differs = list(dict.fromkeys(draft.result.differs))
    if len(listen) > 1:
        draft.result.differs.append("routes are for all listeners, whatever their ports are")
    draft.result.differs.append("the path of a route ends at a segment: /api/** is not for /apix")
    return draft.result


def _upstream(directive: Directive, draft: Draft) -> None:
    servers = []
    for one in directive["block"]:
        if one["directive"] != "server":
            _common(one, draft)
            continue
        address, *options = one["args"]
        given = dict(option.partition("=")[::2] for option in options)
        entry = json.dumps(_with_port(address))
        if weight := given.pop("weight", ""):
            entry = f"{{ at = {entry}, weight = {int(weight)} }}"
        if left_out := given.keys() & {"backup", "down"}:
            draft.result.differs.append(
                f"line {one['line']}, server {address} {' '.join(left_out)}: it is left out;"
                " nginx sends it requests "
                + ("never" if "down" in left_out else "when all others have failed")
            )
            continue
        if given:
            draft.miss(one, "health = {...} of the upstream takes failed servers out")
        servers.append(entry)
    draft.upstreams[directive["args"][0]] = [f"servers = [{', '.join(servers)}]"]


def _with_port(address: str, port: int = 80) -> str:
    if address.startswith("unix:"):
        return address
    return address if re.search(r":\d+$", address) else f"{address}:{port}"


def _defaults(servers: Sequence[Directive]) -> list[tuple[str, Directive]]:
    """The servers that take requests for unknown hosts, each with its scheme if there are two."""
    found = []
    for scheme in ("http", "https"):
        listening = [one for one in servers if any(_listens(one, scheme))]
        first = listening[0] if listening else None
        default = next(
            (one for one in listening if "default_server" in _listens(one, scheme)), first
        )
        if default is not None:
            found.append((scheme, default))
    is_one = all(default is found[0][1] for _, default in found)
    return [("", found[0][1])] if found and is_one else found


def _schemes(server: Directive) -> set[str]:
    return {scheme for scheme in ("http", "https") if _listens(server, scheme)}


def _listens(server: Directive, scheme: str) -> list[str]:
    """The words of its directives `listen` for connections with or without TLS."""
    listens = [one["args"] for one in _all(server["block"], "listen")] or [["80"]]
    is_tls = scheme == "https"
    of_scheme = [words for words in listens if bool({"ssl", "quic"} & set(words)) == is_tls]
    return [word for words in of_scheme for word in words]


def _server(directive: Directive, draft: Draft, schemes: Sequence[str]) -> None:
    block: Sequence[Directive] = directive["block"]
    names = [name for one in _all(block, "server_name") for name in one["args"]]
    hosts = [name for name in names if name != "_" and not name.startswith("~")]
    if any(name.startswith("~") for name in names):
        draft.result.absent.append(f"line {directive['line']}: a server_name with a pattern")
    root = next((one["args"][0] for one in _all(block, "root")), "")
    locations = _all(block, "location")
    redirects = [one for one in _all(block, "return") if one["args"][0] in REDIRECTS]
    # It is answered before a location is looked for.
    locations = [] if redirects else locations
    for one in (one for one in block if one not in redirects):
        if one["directive"] == "listen":
            _listen(one, draft)
        elif one["directive"] != "location":
            _common(one, draft)
    has_rest = any(one["args"] == ["/"] for one in locations)
    if not draft.listen and not _all(block, "listen"):
        draft.listen.setdefault(f"{ANYWHERE}:80", False)
    named = list(_both(hosts))
    # The default server is for other hosts, too; a redirect precedes the routes of its own hosts.
    own = _schemes(directive)
    scheme = "" if own == draft.schemes else min(own)
    is_default = "" in schemes or own <= set(schemes)
    clients = [] if is_default and not redirects else [(scheme, host) for host in named]
    clients += [(one, "") for one in schemes or ([] if hosts else [scheme])]
    for client in clients:
        for location in locations:
            _location(location, client, root, draft)
        if lines := [line for one in redirects for line in _redirect(one, draft)]:
            _add(draft, client, "/", lines)
        elif root and not has_rest:
            _add(draft, client, "/", [f"folder = {json.dumps(root)}"])


def _both(hosts: Iterable[str]) -> Iterator[str]:
    """`.example.org` is for that host and all below it."""
    for host in hosts:
        if host.startswith("."):
            yield f"*{host}"
        yield host.removeprefix(".")


def _all(block: Iterable[Directive], name: str) -> list[Directive]:
    return [one for one in block if one["directive"] == name]


def _listen(directive: Directive, draft: Draft) -> None:
    address, *options = directive["args"]
    if "quic" in options:
        draft.miss(directive, "connections speak HTTP/1.1")
        return
    if address.isdigit():
        address = f"{ANYWHERE}:{address}"
    elif not address.startswith("unix:"):
        address = _with_port(address.replace("*:", f"{ANYWHERE}:"))
    suffix = ",proxy-protocol" if "proxy_protocol" in options else ""
    draft.listen[address + suffix] = "ssl" in options
    unknown = set(options) - {"ssl", "default_server", "proxy_protocol", "reuseport", "ipv6only=on"}
    if unknown:
        draft.miss(directive, f"{', '.join(sorted(unknown))}: connections speak HTTP/1.1")


def _location(directive: Directive, client: tuple[str, str], root: str, draft: Draft) -> None:
    *modifier, path = directive["args"]
    block: Sequence[Directive] = directive["block"]
    if modifier and modifier[0] not in {"=", "^~"}:
        _pattern(directive, draft)
        return
    if path.startswith("@"):
        draft.miss(directive, "a named location; write a route for its paths")
        return
    folders = [one["args"][0] for one in block if one["directive"] in {"root", "alias"}]
    has_alias = bool(_all(block, "alias"))
    below = "" if has_alias else path.strip("/")
    lines = [line for one in block for line in _of_location(one, path, draft)]
    fields = {one["args"][0].lower() for one in _all(block, "proxy_set_header")}
    if _all(block, "proxy_pass") and "host" not in fields:
        draft.result.differs.append(
            f"line {directive['line']}: servers get the Host of the client;"
            ' host = "upstream" of the upstream sends its address'
        )
    if not any(line.startswith(("to =", "fixed =", "redirect =")) for line in lines):
        if not folders and not root:
            draft.miss(directive, "nothing of it says what is served")
            return
        lines.insert(0, f"folder = {json.dumps(folders[0] if folders else root)}")
    is_folder = lines[0].startswith("folder =")
    for one in _all(block, "try_files"):
        _try_files(one, draft, path.rstrip("/") if has_alias else "", is_folder=is_folder)
    for one in _all(block, "expires"):
        if not is_folder:
            draft.miss(one, 'response-field = ["Cache-Control: VALUE"]')
        elif has_alias:
            draft.of_alias.append(one)
        else:
            _expires(one, [f"{below}/**" if below else "**"], draft)
    _add(draft, client, path if modifier[:1] == ["="] else f"{path.rstrip('/')}/**", _merged(lines))


def _pattern(location: Directive, draft: Draft) -> None:
    """Such a location is for names of files, if it is for the life of files with an extension."""
    found = re.fullmatch(r"\\\.\(?(?:\?:)?([\w|]+)\)?\$", location["args"][-1])
    names = {one["directive"] for one in location["block"]} - DEFAULTS
    if found is None or "expires" not in names or names - {"expires", "access_log"}:
        draft.miss(location, "a pattern; write a route for each path")
        return
    patterns = [f"*.{extension}" for extension in found[1].split("|")]
    for one in _all(location["block"], "expires"):
        _expires(one, patterns, draft)


def _expires(directive: Directive, patterns: Sequence[str], draft: Draft) -> None:
    value = directive["args"][-1]
    found = re.fullmatch(r"(\d+)([smhdwMy]?)", value)
    if value == "off":
        return
    if len(directive["args"]) > 1 or not (found or value in {"max", "epoch", "-1"}):
        draft.miss(directive, 'cache-control = ["PATTERN=VALUE"]')
        return
    seconds = int(found[1]) * SECONDS[found[2] or "s"] if found else 315360000
    control = f"max-age={seconds}" if found or value == "max" else "no-cache"
    draft.cache_control.update(dict.fromkeys(patterns, control))
    draft.result.differs.append(
        f"line {directive['line']}, expires {value}: cache-control is for the files of all folders"
        " whose names match, and Expires is not sent"
    )


def _cache_control(draft: Draft) -> Iterator[str]:
    """The first rule that matches holds: those of extensions, then those of long paths."""
    folders = {line for _, lines in draft.routes for line in lines if line.startswith("folder =")}
    for one in draft.of_alias:
        if len(folders) == 1:
            _expires(one, ["**"], draft)
        else:
            draft.miss(one, 'cache-control = ["PATTERN=VALUE"] is for the files of all folders')
    rules = draft.cache_control.items()
    ordered = sorted(rules, key=lambda rule: (not rule[0].startswith("*."), -len(rule[0])))
    if ordered:
        yield f"cache-control = {json.dumps([f'{name}={control}' for name, control in ordered])}"


def _try_files(directive: Directive, draft: Draft, prefix: str, *, is_folder: bool) -> None:
    """What is served for other paths; `prefix` is that of a location whose folder is an alias."""
    *tried, last = directive["args"]
    if (
        not is_folder
        or not set(tried) <= TRIED
        or last not in {"=404", f"{prefix}/index.html", *TRIED}
    ):
        draft.miss(directive, "spa = true, clean-urls = true and not-found = FILE are for folders")
        return
    if "$uri.html" in directive["args"]:
        draft.keys["clean-urls"] = True
    if last == f"{prefix}/index.html":
        draft.keys["spa"] = True
        draft.result.differs.append(
            f"line {directive['line']}, try_files: spa is for all folders; a missing name with an"
            " extension is 404 for clients that do not accept text/html"
        )


def _of_location(one: Directive, path: str, draft: Draft) -> Iterator[str]:
    values = one["args"]
    match one["directive"]:
        case "proxy_pass" | "uwsgi_pass":
            yield from _pass(one, path, draft)
        case "alias":
            yield f"strip-prefix = {json.dumps(path.rstrip('/'))}"
        case "return" if values[0] == "200" and "$" not in values[-1]:
            yield f"fixed = {json.dumps(values[1] if len(values) > 1 else '')}"
        case "return" if values[0] in REDIRECTS:
            yield from _redirect(one, draft)
        case "client_max_body_size":
            yield f"body-size-max = {json.dumps(_size(values[0]))}"
        case "proxy_set_header":
            yield from _request_field(one, draft)
        case "proxy_hide_header":
            yield f"response-field = {json.dumps(f'-{values[0]}')}"
        case "try_files" | "expires" | "root":
            pass
        case _:
            _common(one, draft)


def _merged(route: Sequence[str]) -> list[str]:
    """The lines of a route, with those of its fields as one list."""
    lines = list(route)
    for key in ("request-field = ", "response-field = "):
        fields = [line.removeprefix(key) for line in lines if line.startswith(key)]
        lines = [line for line in lines if not line.startswith(key)]
        lines += [f"{key}[{', '.join(fields)}]"] if fields else []
    return lines


def _add(draft: Draft, client: tuple[str, str], path: str, lines: Sequence[str]) -> None:
    """Adds a route; nginx prefers servers with a name, exact paths, and then the longest one."""
    scheme, host = client
    path = "/**" if path == "/" else path
    if scheme and not any(line.startswith("scheme") for line in lines):
        lines = [f"scheme = {json.dumps(scheme)}", *lines]
    is_of_scheme = any(line.startswith("scheme") for line in lines)
    order = (not host, not is_of_scheme, path.endswith("/**"), -len(path))
    of_host = [f"host = {json.dumps(host)}"] if host else []
    draft.routes.append((order, [*of_host, f"path = {json.dumps(path)}", *lines]))


def _pass(directive: Directive, path: str, draft: Draft) -> Iterator[str]:
    found = re.fullmatch(
        r"(?:(https?)://)?(unix:[^:$]+|[^/$]+?)(?::?(/[^$]*))?", directive["args"][0]
    )
    if found is None:
        draft.miss(directive, "write the upstream and its route by hand")
        return
    name, prefix = found[2], found[3]
    is_uwsgi = directive["directive"] == "uwsgi_pass"
    if name not in draft.upstreams:
        address = _with_port(name, 443 if found[1] == "https" else 80)
        name = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
        draft.upstreams[name] = [f"servers = [{json.dumps(address)}]"]
    protocol = "uwsgi" if is_uwsgi else found[1]
    line = f'protocol = "{protocol}"'
    if protocol in {"uwsgi", "https"} and line not in draft.upstreams[name]:
        draft.upstreams[name].append(line)
    if protocol == "https":
        draft.result.differs.append(
            f"line {directive['line']}: certificates are verified (tls-ca, tls-insecure);"
            " nginx accepts all unless proxy_ssl_verify is on"
        )
    yield f"to = {json.dumps(name)}"
    if prefix is not None:
        if path.rstrip("/"):
            yield f"strip-prefix = {json.dumps(path.rstrip('/'))}"
        if prefix.rstrip("/"):
            yield f"add-prefix = {json.dumps(prefix.rstrip('/'))}"


def _request_field(directive: Directive, draft: Draft) -> Iterator[str]:
    name, value = directive["args"]
    written = {"$remote_addr": "{client}", "$scheme": "{scheme}", "$host": "{host}"}.get(
        value, value
    )
    if name.lower() in FORWARDED:
        return
    if "$" in written:
        draft.miss(directive, "a variable without a counterpart")
        return
    yield f"request-field = {json.dumps(f'{name}: {written}')}"


def _redirect(directive: Directive, draft: Draft) -> Iterator[str]:
    status, url = directive["args"][0], directive["args"][-1]
    written = re.sub(r"\$\w+", lambda found: VARIABLES.get(found[0], found[0]), url)
    if "$" in written:
        draft.miss(directive, "a variable without a counterpart")
        return
    if written.startswith("https://"):
        # One table of routes is for all listeners.
        yield 'scheme = "http"'
    yield f"redirect = {json.dumps(written)}"
    yield f"redirect-status = {status}"


def _size(value: str) -> str:
    """A size; 0 is no limit."""
    if value == "0":
        return "1024GiB"
    unit = value[-1].upper()
    return f"{value[:-1]}{unit}iB" if unit in "KMG" else value


def _seconds(draft: Draft, directive: Directive) -> None:
    value = directive["args"][0]
    draft.keys["idle-time-max"] = f"{value}s" if value.isdigit() else value


COMMON: dict[str, Callable[[Draft, Directive], None]] = {
    "try_files": lambda draft, one: _try_files(one, draft, "", is_folder=True),
    "expires": lambda draft, one: _expires(one, ["**"], draft),
    "access_log": lambda draft, one: draft.keys.update(
        {} if one["args"][0] == "off" else {"access-log": one["args"][0]}
    ),
    "keepalive_timeout": _seconds,
    "ssl_certificate": lambda draft, one: draft.keys.update({"tls-cert": one["args"][0]}),
    "ssl_certificate_key": lambda draft, one: draft.keys.update({"tls-key": one["args"][0]}),
    "client_max_body_size": lambda draft, one: draft.keys.update(
        {"body-size-max": _size(one["args"][0])}
    ),
}


def _common(directive: Directive, draft: Draft) -> None:
    name = directive["directive"]
    if name in COMMON:
        COMMON[name](draft, directive)
    elif name not in DEFAULTS:
        draft.miss(directive, INSTEAD.get(name, "nothing corresponds to it"))
