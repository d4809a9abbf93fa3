"""The options of `jissoku compare` as values: targets and workload."""

from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import ConnectionMode, Method, Transport, Workload
from jissoku.observe.capacity import Objective
from jissoku.pipeline.selection import Selection
from jissoku.targets.raw_requests import read_raw_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Values of the command line; fields are named as the options."""

    arms: tuple[str, ...]
    quick: bool
    group: str
    cmd: tuple[str, ...]
    url: tuple[str, ...]
    recipes: tuple[Path, ...]
    path: str
    method: str
    header: tuple[tuple[str, str], ...]
    body: str | None
    raw: tuple[Path, ...]
    websocket: bool
    connections: int
    rate: int | None
    closed_loop: bool
    method_name: Method | None
    objective: Objective
    pipeline: int
    keepalive: bool
    unix: bool
    upstream: str
    blocks: int | None
    check_blocks: int | None
    seed: int
    out: Path | None
    server_cores: str | None
    generator_cores: str | None
    label: tuple[tuple[str, str], ...]
    baseline: str | None
    build: str
    fail_if: tuple[str, ...]
    confirm: bool
    undecided: str
    comment: Path | None
    step_summary: Path | None
    export_as: tuple[tuple[str, Path], ...]
    profile: bool
    as_json: bool
    quiet: bool


def selection(options: CompareOptions, *, floor: bool) -> Selection:
    """The targets."""
    return Selection(
        named=options.arms,
        group=options.group,
        commands=options.cmd,
        urls=options.url,
        recipes=options.recipes,
        path=options.path,
        unix=options.unix,
        upstream=Transport(options.upstream),
        # The floor parses nothing, so it completes no handshake.
        floor=floor and not options.websocket,
    )


def workload(options: CompareOptions) -> Workload:
    """The requests.

    Raises:
        InputError: Options contradict each other, or a file cannot be read.
    """
    if options.rate is not None and (options.closed_loop or options.pipeline > 1):
        bursts = "--closed-loop" if options.closed_loop else "--pipeline"
        raise InputError(f"-R and {bursts} exclude each other")
    if options.raw and (options.header or options.body or options.method != "GET"):
        raise InputError("--raw is the whole request: leave out -m, -H and --body")
    if options.websocket:
        _check_websocket(options)
    return Workload(
        path=options.path,
        method=options.method,
        headers=options.header,
        body=_body(options.body),
        websocket=options.websocket,
        raw_requests=read_raw_requests(options.raw, keepalive=options.keepalive),
        connections=options.connections,
        pipeline=options.pipeline,
        connection_mode=ConnectionMode.KEEP_ALIVE if options.keepalive else ConnectionMode.CLOSE,
        rate_rps=options.rate,
        transport=Transport.UNIX if options.unix else Transport.TCP,
    )


def _check_websocket(options: CompareOptions) -> None:
    excluded = {
        "--raw": options.raw,
        "-m": options.method != "GET",
        "--pipeline": options.pipeline > 1,
        "--no-keepalive": not options.keepalive,
    }
    for name, is_given in excluded.items():
        if is_given:
            raise InputError(f"--websocket and {name} exclude each other")


def _body(given: str | None) -> bytes:
    if given is None:
        return b""
    if not given.startswith("@"):
        return given.encode()
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise InputError(f"--body {given}: {error.strerror}") from error
