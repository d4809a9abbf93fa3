"""The user's nginx configuration, changed to run next to the machine's own nginx.

Only the necessary changes are made, the same in every arm, and every change is reported: listen
addresses, user, and paths it writes to. Served content and its paths stay unchanged.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from jissoku.model import ConfigFile
from jissoku.system.address import Address
from jissoku.targets import user_configuration
from jissoku.targets.nginx_config import Configuration, Directive, Edit, inserted, replaced
from jissoku.targets.placeholders import MEANINGS, require_no_placeholder
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.user_configuration import ListenAddress, of_user, tcp_address

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
CACHES = frozenset({f"{name}_cache_path" for name in ("proxy", "fastcgi", "uwsgi", "scgi")})

# Their paths are relative to the main file's folder, which differs in the sandbox.
BESIDE_MAIN = re.compile(
    "auth_basic_user_file|ssl_(certificate|certificate_key|client_certificate|crl|dhparam"
    "|password_file|session_ticket_key|trusted_certificate)"
)

AFFINITY = "worker_cpu_affinity"
AUTO = ("auto",)

TAKEN_OUT = frozenset({"stream", "mail"})

# Parameters of listen that are valid for Unix sockets, too.
ON_ANY_SOCKET = frozenset({"default_server", "default", "ssl", "http2", "proxy_protocol"})

# While the text is edited, our placeholders must not look like blocks of nginx.
OPEN, CLOSE = "\x01", "\x02"

# By default nginx counts all cores of the machine, even those it may not use.
WITHIN_CORES = f"{AFFINITY} auto {OPEN}mask{CLOSE};"


def _run(name: str) -> str:
    return f"{OPEN}run{CLOSE}/{name}"


# The directives of every trial at the top of the main file.
OURS = {
    "daemon": "off",
    "user": f"{OPEN}user{CLOSE} {OPEN}group{CLOSE}",
    "pid": _run("nginx.pid"),
    "lock_file": _run("nginx.lock"),
}


def escape_placeholders(text: str) -> str:
    """Escapes our placeholders, whose braces have a meaning in nginx's grammar."""
    names = "|".join(MEANINGS)
    return re.sub(rf"\{{({names})\}}", rf"{OPEN}\1{CLOSE}", text)


def unescape_placeholders(text: str) -> str:
    return text.replace(OPEN, "{").replace(CLOSE, "}")


def within_cores(configuration: Configuration) -> Configuration:
    return configuration.edited(
        replaced(directive, WITHIN_CORES)
        for above, directive in configuration.walk()
        if not above and directive.name == AFFINITY and directive.words == AUTO
    )


def choose_listen_address(configuration: Configuration, wanted: str = "") -> ListenAddress:
    """The first address that does not only redirect, rather with plain HTTP; or the named one."""
    found: dict[str, ListenAddress] = {}
    for above, directive in configuration.walk():
        if _is_silent_server(above, directive):
            found.setdefault("80", ListenAddress(address="80"))
        if not _is_http(above) or directive.name != "listen":
            continue
        address, *parameters = directive.words
        if {"quic", "proxy_protocol"}.isdisjoint(parameters):
            one = ListenAddress(
                address=address, is_tls="ssl" in parameters, redirects=_redirects(above[-1])
            )
            found.setdefault(address, one)
    return user_configuration.choose(found, wanted, configuration.main)


def require_http(configuration: Configuration) -> None:
    for file, text in configuration.texts.items():
        require_no_placeholder(file, text)


def describe_changes(chosen: ListenAddress) -> tuple[str, ...]:
    tls = ", with TLS" if chosen.is_tls else ""
    return (
        f"listen {chosen.address}: a free port of 127.0.0.1{tls}",
        "every other address: a Unix socket that gets no requests",
        "user: the current user; daemon off",
        "worker_cpu_affinity: auto means the lab's cores; one that names cores is removed",
        "pid, lock file, logs (in their own formats), temporary files, caches: in a trial's folder",
        "stream and mail blocks: removed",
    )


def prepared(
    base: PreparedTarget, configuration: Configuration, chosen: ListenAddress, prefix: str
) -> PreparedTarget:
    """The configuration as a prepared target; `base` is nginx as prepared from its recipe.

    `prefix` is the folder that relative paths of a configuration refer to, as nginx was built.
    """
    names = {file: f"conf/{index}.conf" for index, file in enumerate(configuration.texts)}
    moved = configuration.edited(_moves(configuration, chosen, names))
    command = ("{program}", "-p", prefix, "-c", f"{{run}}/{names[configuration.main]}")
    return of_user(
        base,
        "nginx",
        chosen=chosen,
        command=(*command, "-e", "stderr"),
        unix="unix:{socket}",
        config=(
            *(
                ConfigFile(name=names[file], text=unescape_placeholders(text))
                for file, text in moved.texts.items()
            ),
            ConfigFile(name="logs/README", text="Logs of one trial.\n"),
        ),
        upstreams=upstreams(configuration),
    )


def _moves(
    configuration: Configuration, chosen: ListenAddress, names: dict[Path, str]
) -> Iterator[Edit]:
    sockets: dict[str, str] = {}
    stands: set[str] = set()
    for above, directive in _kept(configuration):
        level = tuple(outer.name for outer in above)
        if level in {(), ("http",)}:
            stands.add("/".join((*level, directive.name)))
        if _is_silent_server(above, directive):
            yield inserted(configuration, directive, _listen(("80",), chosen, sockets))
        if directive.name == "listen" and _is_http(above):
            yield replaced(directive, _listen(directive.words, chosen, sockets))
        elif (text := _moved(configuration, level, directive, names)) is not None:
            yield replaced(directive, text)
    for name, value in OURS.items():
        yield inserted(configuration, None, f"{name} {value};")
    if "error_log" not in stands:
        yield inserted(configuration, None, "error_log stderr;")
    http = next(found for above, found in _kept(configuration) if found.name == "http")
    # Without the directive nginx would write to its compiled-in path.
    if "http/access_log" not in stands:
        yield inserted(configuration, http, f"access_log {_run('logs/access.log')};")
    for name in TEMPORARY:
        yield inserted(configuration, http, f"{name}_temp_path {_run(name)};")


def _kept(configuration: Configuration) -> Iterator[tuple[tuple[Directive, ...], Directive]]:
    for above, directive in configuration.walk():
        if not any(outer.name in TAKEN_OUT for outer in above):
            yield above, directive


def _moved(
    configuration: Configuration,
    level: tuple[str, ...],
    directive: Directive,
    names: dict[Path, str],
) -> str | None:
    """The replacement of a directive in the sandbox; None if it is unchanged."""
    name, words = directive.name, directive.words
    if level == () and name == AFFINITY and words == AUTO:
        return WITHIN_CORES
    is_temporary = name.removesuffix("_temp_path") in TEMPORARY and name.endswith("_temp_path")
    if is_temporary or (level == () and (name in OURS or name in TAKEN_OUT | {AFFINITY})):
        return ""
    if name == "include":
        files = [names[file] for file in configuration.included(directive) if file in names]
        return "\n".join(f"include {_run(file)};" for file in files)
    is_relative = words and not words[0].startswith(("/", "data:", "engine:", "$"))
    if is_relative and BESIDE_MAIN.fullmatch(name):
        return f'{name} "{configuration.main.parent / words[0]}";'
    place = _place(directive)
    return " ".join([name, place, *words[1:]]) + ";" if place else None


def _place(directive: Directive) -> str:
    """Where a directive writes in the sandbox; empty for one that writes nowhere."""
    name, words = directive.name, directive.words
    if name == "error_log":
        return "stderr"
    if name == "access_log" and words and words[0] not in {"off", "/dev/null"}:
        return _run("logs/access.log")
    if name in CACHES:
        return _run(f"cache-{directive.line}")
    return ""


def _listen(words: tuple[str, ...], chosen: ListenAddress, sockets: dict[str, str]) -> str:
    if words[0] == chosen.address:
        return " ".join(["listen", f"{OPEN}listen{CLOSE}", *words[1:]]) + ";"
    if "quic" in words:
        return ""
    socket = sockets.setdefault(words[0], _run(f"other-{len(sockets)}.sock"))
    kept = [word for word in words[1:] if word in ON_ANY_SOCKET]
    return " ".join(["listen", f"unix:{socket}", *kept]) + ";"


def _is_silent_server(above: tuple[Directive, ...], directive: Directive) -> bool:
    """Whether a directive is a server without a listen directive, which means port 80.

    An include in it is assumed to have one. A `server` of an upstream is not a block.
    """
    is_server = directive.name == "server" and directive.body is not None and _is_http(above)
    return is_server and not any(one.name in {"listen", "include"} for one in directive.inner)


def _redirects(server: Directive) -> bool:
    """Whether a server returns a redirection whatever is requested (ngx_http_rewrite_module)."""
    return any(
        one.name == "return" and one.words and one.words[0].startswith("30") for one in server.inner
    )


def _is_http(above: tuple[Directive, ...]) -> bool:
    return bool(above) and above[0].name == "http"


# Directives of nginx that forward a request (ngx_http_proxy_module and its siblings).
PASSES = frozenset({"fastcgi_pass", "grpc_pass", "proxy_pass", "scgi_pass", "uwsgi_pass"})
DEFAULT_PORTS = {"https": 443, "grpcs": 443}


def upstreams(configuration: Configuration) -> tuple[Address, ...]:
    """Addresses of `server` in upstream blocks, and of directives that forward to an address."""
    found: dict[Address, None] = {}
    for above, directive in configuration.walk():
        if not directive.words:
            continue
        if directive.name == "server" and above and above[-1].name == "upstream":
            scheme, text = [""], directive.words[0]
        elif directive.name in PASSES:
            *scheme, text = directive.words[0].split("://", 1)
        else:
            continue
        # As nginx writes it: `host:port/path`, or `unix:/path:/path`.
        if text.startswith("unix:"):
            path = text.removeprefix("unix:").partition(":")[0]
            one = Address(socket=path) if path.startswith("/") else None
        else:
            one = tcp_address(text.partition("/")[0], DEFAULT_PORTS.get("".join(scheme), 80))
        if one is not None:
            found[one] = None
    return tuple(found)
