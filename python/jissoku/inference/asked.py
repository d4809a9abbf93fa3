"""The comparison that measures a run's arms again, as it was asked for."""

import shlex
from collections.abc import Sequence

from jissoku.model import (
    FULL_LOAD,
    Arm,
    ConnectionMode,
    Load,
    Mode,
    Origin,
    Run,
    Transport,
    Workload,
)
from jissoku.request import ComparisonRequest
from jissoku.request.options import is_complete

# Characters of a request body that a command contains.
BODY_MAX = 200


def comparison(run: Run, loads: Sequence[Load]) -> ComparisonRequest:
    """The recorded request; of older runs, and of other commands', what the header says of it.

    `loads` are those with trials, which older headers do not have. COMMAND, URL and FILE stand for
    what a header does not have.
    """
    if isinstance(run.request, ComparisonRequest):
        return run.request
    arms = [arm for arm in run.arms if arm.name not in {run.floor, run.aa_control}]
    words = {origin: tuple(_word(arm) for arm in arms if arm.origin is origin) for origin in Origin}
    workload = run.workload
    return ComparisonRequest(
        arms=words[Origin.RECIPE],
        cmd=words[Origin.COMMAND],
        url=words[Origin.URL],
        quick=run.mode is Mode.QUICK,
        path=workload.path,
        method=workload.method,
        header=workload.headers,
        body=_body(workload),
        raw=("FILE",) * len(workload.raw_requests),
        websocket=workload.websocket,
        connections=workload.connections,
        rate=workload.rate_rps,
        # A pipeline is a closed loop.
        closed_loop=tuple(loads) == (FULL_LOAD,) and workload.pipeline == 1,
        pipeline=workload.pipeline,
        keepalive=workload.connection_mode is not ConnectionMode.CLOSE,
        unix=workload.transport is Transport.UNIX,
    )


def _word(arm: Arm) -> str:
    if arm.origin is Origin.RECIPE:
        return arm.name if arm.name == arm.target else f"{arm.name}={arm.target}"
    if arm.origin is Origin.URL:
        return f"{arm.name}=URL"
    command = shlex.join(arm.command)
    is_known = command and is_complete(ComparisonRequest(cmd=(command,)))
    return f"{arm.name}={command if is_known else 'COMMAND'}"


def _body(workload: Workload) -> str | None:
    """The body as it may be given, or a name for its file."""
    if not workload.body:
        return None
    try:
        text = workload.body.decode()
    except UnicodeDecodeError:
        return "@FILE"
    is_short = len(text) <= BODY_MAX and text.isprintable() and not text.startswith("@")
    return text if is_short else "@FILE"
