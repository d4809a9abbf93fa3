"""From a request to its workload and seed, and to what a record keeps of it."""

import re
import secrets
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.model import ConnectionMode, Transport, Workload
from jissoku.request import AnyRequest
from jissoku.request.options import with_local_texts
from jissoku.targets.contract import read_raw_requests
from jissoku.targets.provenance import redact

Kind = TypeVar("Kind", bound=msgspec.Struct)

# The host of a URL, unless it is this machine's own.
HOST = re.compile(r"(?<=://)(?!127\.|localhost\b|\[::1\])[^/:?#\s]+(?=[:/?#\s]|$)")

# Fields of a workload that requests have under the same name.
SAME = ("path", "method", "websocket", "connections", "pipeline")


def workload(request: AnyRequest) -> Workload:
    """The requests to send; of what a kind of request does not ask for, the default.

    Raises:
        InputError: A file cannot be read.
    """
    given: dict[str, Any] = {one: getattr(request, one) for one in SAME if hasattr(request, one)}
    keepalive = getattr(request, "keepalive", True)
    raw = tuple(map(Path, getattr(request, "raw", ())))
    return Workload(
        **given,
        headers=getattr(request, "header", ()),
        body=_body(getattr(request, "body", None)),
        raw_requests=read_raw_requests(raw, keepalive=keepalive),
        connection_mode=ConnectionMode.KEEP_ALIVE if keepalive else ConnectionMode.CLOSE,
        rate_rps=getattr(request, "rate", None),
        transport=Transport.UNIX if getattr(request, "unix", False) else Transport.TCP,
    )


def seed(given: int | None) -> int:
    """The given seed, or a drawn one."""
    return secrets.randbelow(2**31) if given is None else given


def recorded(request: Kind) -> Kind:
    """The request without paths, hosts and names of this machine, because records are published."""
    return with_local_texts(request, lambda text: HOST.sub("HOST", redact(text)))


def _body(given: str | None) -> bytes:
    if given is None:
        return b""
    if not given.startswith("@"):
        return given.encode()
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise InputError(f"--body {given}: {error.strerror}") from error
