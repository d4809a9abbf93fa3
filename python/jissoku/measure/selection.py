"""From a request to prepared arms, the workload and the seed."""

import datetime as dt
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.measure.host import LocalHost, ServerHost, build_paths, required
from jissoku.measure.progress import ProgressListener
from jissoku.measure.trial import PreparedArm
from jissoku.model import (
    ConnectionMode,
    Match,
    Origin,
    Recipe,
    Transport,
    UnavailableTarget,
    Workload,
)
from jissoku.model.experiment import WorkloadSpec
from jissoku.request import (
    AnyRequest,
    BisectionRequest,
    ComparisonRequest,
    ExperimentRequest,
    ExplanationRequest,
    ProfileRequest,
    SweepRequest,
    TuningRequest,
)
from jissoku.request.options import with_local_texts
from jissoku.system.redaction import redact
from jissoku.targets import catalogue, command
from jissoku.targets.command import split_version
from jissoku.targets.contract import capability, read_raw_requests
from jissoku.targets.launch import require_reachable
from jissoku.targets.prepare import PreparedTarget

Kind = TypeVar("Kind", bound=msgspec.Struct)

# The host of a URL, unless it is this machine's own.
HOST = re.compile(r"(?<=://)(?!127\.|localhost\b|\[::1\])[^/:?#\s]+(?=[:/?#\s]|$)")

# Fields of a workload that requests have under the same name.
SAME = ("path", "method", "websocket", "connections", "pipeline")

# Requests that name several targets.
Request = ComparisonRequest | SweepRequest | ProfileRequest

# Requests whose targets may be on another host.
RequestOfHost = (
    ComparisonRequest
    | ProfileRequest
    | ExplanationRequest
    | SweepRequest
    | ExperimentRequest
    | TuningRequest
    | BisectionRequest
)

# What to do instead of an option that needs the targets on this machine.
INSTEAD_ON_ANOTHER_HOST = {
    "--baseline": "a baseline is built here; build both there, and name them with two --cmd",
    "--unix": "a Unix socket is reached on its own host only; leave it out",
    "a longer -d than 10m": "an agent ends what takes so long; shorten it",
}

# The longest window of a profile on another host, in seconds: within the time after which an agent
# takes a client that says nothing for gone.
REMOTE_WINDOW_MAX_S = 600.0

FLOOR = "floor"

RUNS = Path("runs")

# Default targets: one of each kind, so that a run ends within minutes.
DEFAULT_TARGETS = ("jissoku", "nginx-tuned", "go", "node", "uvicorn", "tornado", "http-server")


def workload(request: AnyRequest | WorkloadSpec) -> Workload:
    """The requests to send; of what is not asked for, the default."""
    given: dict[str, Any] = {one: getattr(request, one) for one in SAME if hasattr(request, one)}
    keepalive = getattr(request, "keepalive", True)
    raw = tuple(map(Path, getattr(request, "raw", ())))
    return Workload(
        **given,
        match=Match(getattr(request, "match", Match.BYTES)),
        headers=getattr(request, "header", ()),
        body=_body(getattr(request, "body", None)),
        raw_requests=read_raw_requests(raw, keepalive=keepalive),
        connection_mode=ConnectionMode.KEEP_ALIVE if keepalive else ConnectionMode.CLOSE,
        rate_rps=getattr(request, "rate", None),
        transport=Transport.UNIX if getattr(request, "unix", False) else Transport.TCP,
    )


def seed(given: int | None) -> int:
    return secrets.randbelow(2**31) if given is None else given


def recorded(request: Kind) -> Kind:
    """The request without paths, hosts and names of this machine, because records are published."""
    found = with_local_texts(request, lambda text: HOST.sub("HOST", redact(text)))
    if isinstance(found, RequestOfHost) and found.server_host:
        found = msgspec.structs.replace(found, server_host="HOST")
    if isinstance(found, ComparisonRequest):
        loads, machines = (("HOST",) * len(one) for one in (found.load_host, found.machine))
        found = msgspec.structs.replace(found, load_host=loads, machine=machines)
    return found


def _body(given: str | None) -> bytes:
    if given is None:
        return b""
    if not given.startswith("@"):
        return given.encode()
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise InputError(f"--body {given}: {error.strerror}") from error


def check_server_host(request: RequestOfHost) -> None:
    """Refuses what is not possible with targets on another host, with what to do instead."""
    if not request.server_host:
        if request.server_keys and not getattr(request, "machine", ()):
            raise InputError("--server-keys goes with --server-host")
        if getattr(request, "load_host", ()):
            raise InputError(
                "--load-host goes with --server-host: of targets on this host, the load comes from"
                " this host"
            )
        return
    baseline = getattr(request, "baseline", None)
    given = {
        "--baseline": baseline and not Path(baseline).is_dir(),
        "--unix": getattr(request, "unix", False),
        "a longer -d than 10m": getattr(request, "duration", 0.0) > REMOTE_WINDOW_MAX_S,
    }
    if isinstance(request, ComparisonRequest) and request.load_host:
        _check_load_hosts(request)
    for name, is_given in given.items():
        if is_given:
            raise InputError(
                f"--server-host and {name} exclude each other: {INSTEAD_ON_ANOTHER_HOST[name]}"
            )


def _check_load_hosts(request: ComparisonRequest) -> None:
    hosts = request.load_host
    if request.profile:
        raise InputError(
            "--load-host and --profile exclude each other: a profile has to know when its window"
            " opens; leave --load-host out"
        )
    if request.connections < len(hosts):
        raise InputError(f"{len(hosts)} load hosts need as many connections: give -c {len(hosts)}")
    if twice := [name for name, count in Counter(hosts).items() if count > 1]:
        raise InputError(f"--load-host {twice[0]} is given twice: one agent sends one part")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSelection:
    arms: tuple[PreparedArm, ...]
    unavailable: tuple[UnavailableTarget, ...]
    floor: str


def prepare_targets(
    wanted: Request,
    listener: ProgressListener,
    *,
    has_floor: bool = False,
    host: ServerHost | None = None,
) -> PreparedSelection:
    """The named targets or else default ones, and the floor: with that, one target is enough.

    `host` None: they run on this machine.
    """
    host = host or LocalHost()
    known = catalogue.recipes(wanted.recipes)
    words = [(name, *split_version(target)) for name, target in _words(known, wanted)]
    required = {name for name, _ in map(_split, wanted.arms)}
    named = [(name, catalogue.get_recipe(known, recipe), at) for name, recipe, at in words]
    others = [host.prepare_command(text) for text in wanted.cmd]
    others += [host.prepare_url(text) for text in wanted.url]
    _check_names([name for name, *_ in named] + [other.name for other in others])
    for _, recipe, _ in named:
        if not _serves(recipe, wanted.path):
            able = ", ".join(recipe.capabilities)
            raise InputError(f"{recipe.name} cannot answer {wanted.path}: its parts are {able}")
    for other in others:
        if other.address is not None:
            require_reachable(other.name, other.address)
    upstream = wanted.upstream if isinstance(wanted, ComparisonRequest) else Transport.TCP
    arms: list[PreparedArm] = []
    unavailable: list[UnavailableTarget] = []
    for name, recipe, version in named:
        listener.note(f"Preparing {name}.")
        found = host.prepare(recipe, version)
        if not isinstance(found, UnavailableTarget):
            found = host.with_changes(found, (), Transport(upstream))
            arms.append(PreparedArm(found.arm(name), found))
        elif name in required:
            raise InputError(found.sentence)
        else:
            unavailable.append(found)
    arms += [PreparedArm(found.arm(), found) for found in others]
    needs_floor = has_floor and not _is_without_floor(wanted)
    floor = _with_floor(arms, wanted.path, host) if needs_floor else ""
    if wanted.unix:
        _require_unix(arms)
    if needs_floor and len(arms) < 2:
        raise InputError(
            "there is nothing to compare with: name two targets, see `jissoku targets`"
        )
    return PreparedSelection(arms=tuple(arms), unavailable=tuple(unavailable), floor=floor)


def arm_names(
    wanted: Request, *, has_floor: bool, known: Mapping[str, Recipe] | None = None
) -> set[str]:
    """The names of arms, before preparing takes minutes; InputError if one has no recipe.

    `known` None: recipes are those of this host.
    """
    known = catalogue.recipes(wanted.recipes) if known is None else known
    words = _words(known, wanted)
    for _, target in words:
        catalogue.get_recipe(known, split_version(target)[0])
    named = {name for name, _ in words}
    named |= {text.partition("=")[0] for text in (*wanted.cmd, *wanted.url)}
    return named | {FLOOR} if has_floor and not _is_without_floor(wanted) else named


def _is_without_floor(wanted: Request) -> bool:
    """The floor parses nothing, so it completes no handshake of a WebSocket."""
    return isinstance(wanted, ComparisonRequest) and wanted.websocket


def prepare_recipe(name: str, folders: Iterable[str]) -> PreparedTarget:
    return required(LocalHost(), catalogue.get_recipe(catalogue.recipes(folders), name))


def prepare_external(*, command_text: str | None, url: str | None) -> PreparedTarget:
    if url is not None:
        return command.from_url(url)
    assert command_text is not None, "a target is a recipe, a command or a URL"
    return command.from_command(command_text, build_paths())


def floor_for(path: str, host: ServerHost | None = None) -> PreparedTarget | None:
    """The floor, if it is available and answers the path; it sends one response to all requests.

    `host` None: it runs on this machine.
    """
    recipe = catalogue.recipes()[FLOOR]
    if capability(path) is None or not _serves(recipe, path):
        return None
    found = (host or LocalHost()).prepare(recipe, "")
    return None if isinstance(found, UnavailableTarget) else found


def _with_floor(arms: list[PreparedArm], path: str, host: ServerHost) -> str:
    if named := [arm.arm.name for arm in arms if arm.arm.target == FLOOR]:
        return named[0]
    found = floor_for(path, host)
    if found is None:
        return ""
    arms.append(PreparedArm(found.arm(FLOOR), found))
    return FLOOR


def _serves(recipe: Recipe, path: str) -> bool:
    """Whether a recipe has the part of the contract that a path belongs to, if it is of one."""
    asked = capability(path)
    return asked is None or asked in recipe.capabilities


def _words(known: Mapping[str, Recipe], wanted: Request) -> list[tuple[str, str]]:
    group = wanted.group if isinstance(wanted, ComparisonRequest) else ""
    use_defaults = not (wanted.arms or group or wanted.cmd or wanted.url)
    words = [_split(word) for word in (DEFAULT_TARGETS if use_defaults else wanted.arms)]
    if group:  # Of its members those that serve the path and are not named already.
        named = {target for _, target in words}
        members = [known[name] for name in catalogue.group(known, group) if name not in named]
        words += [(one.name, one.name) for one in members if _serves(one, wanted.path)]
    return words


def _split(word: str) -> tuple[str, str]:
    name, equals, target = word.partition("=")
    # `granian@2.7.1` is the arm granian-2.7.1: an @ has a meaning in claims.
    return (name, target) if equals else (word.replace("@", "-"), word)


def _require_unix(arms: Iterable[PreparedArm]) -> None:
    for arm in arms:
        prepared = arm.prepared
        if prepared.address is None and not prepared.listen.unix:
            how = ": write {socket} into its command" if prepared.origin is Origin.COMMAND else ""
            raise InputError(f"{arm.arm.name} cannot listen on a Unix socket{how}")


def _check_names(names: Iterable[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(
            f"two arms are called {twice[0]!r}: give one of them another name, as in NAME=TARGET"
        )


def folder_for(*names: str) -> Path:
    """Default directory of a run, by time (UTC) and targets."""
    timestamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    who = "-".join(names)
    return RUNS / f"{timestamp}-{who[:60].rstrip('-')}"
