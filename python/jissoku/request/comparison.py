"""What `jissoku compare` is asked."""

from typing import Annotated

import click
import msgspec

from jissoku.request import param_types, shared
from jissoku.request.options import always, option


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="compare"):
    """Targets, workload, plan and bounds of a comparison, as they were asked for.

    Attributes:
        quick: At most nine blocks of each of three loads (the default), or 40 at all loads
            of the grid, in longer windows.
        group: Also compare the available targets of a group: wsgi or asgi.
        cmd: Compare a command; {port} (or {socket}) is replaced by its address.
        url: Compare an external server at this URL.
        method: HTTP method.
        body: Request body, or @FILE to read it from a file. Default: none.
        raw: File with a whole request; several are sent in rotation. {PATH} and {HOST} are
            replaced.
        connections: Connections per target.
        rate: Compare at this rate only, in requests per second. Default: at the loads of
            the grid that two targets reach (1,000, 5,000 and 20,000 per core of the server
            in quick mode).
        closed_loop: Closed loop: each connection sends its next request when the response
            has arrived.
        pairing: How targets are compared: time-sliced or paired. Default: paired for
            targets that run the same program, else time-sliced.
        objective: Latency objective that a capacity must meet.
        pipeline: Requests in flight per connection.
        upstream: Where the servers behind reverse proxies listen; their CPU time is not
            counted.
        until: When to end: when every pair is decided at every load, at the latest after
            the blocks of the mode (9 or 40). Verdicts are looked for after every block, and
            hold at each of them.
        time_limit: End after this time at the latest, such as 90s or 2m, with the verdicts
            known by then.
        precision: End when every interval is within this of its ratio, such as 1%, instead
            of when every pair is decided.
        blocks: Fixed number of blocks, with a single look after the last one. With
            --fail-if the number is chosen by the precision that decides the bound.
        check_blocks: Blocks that also measure each target alone and with the other slice
            length. Default: 2 in quick mode, 6 in standard mode.
        baseline: Compare with the same --cmd of a git ref, built in a worktree, or of a
            release (PACKAGE==VERSION or a wheel), in the same trials; or with the folder of
            an earlier run, through unchanged arms.
        build: Build both the working directory and the baseline with this command.
        fail_if: Exit with 3 if this is proven, such as 'cost(head) > 1.01 x cost(base)',
            with 4 if it is undecided; repeatable.
        confirm: Before exiting with 3, confirm it with a second run.
        undecided: Whether an undecided bound exits with 4 or with 0.
        profile: Sample two targets afterwards, and break their difference down by function.
    """

    arms: shared.Arms = ()
    quick: Annotated[bool, option("--quick/--standard")] = True
    group: Annotated[str, option("--group", metavar="GROUP")] = ""
    cmd: Annotated[tuple[str, ...], shared.COMMANDS] = ()
    url: Annotated[tuple[str, ...], shared.URLS] = ()
    recipes: shared.Recipes = ()
    path: shared.Path = "/"
    method: Annotated[str, option("-m", "--method", type=param_types.METHOD)] = "GET"
    header: shared.Headers = ()
    body: Annotated[str | None, option("--body", is_local=lambda text: text.startswith("@"))] = None
    raw: Annotated[tuple[str, ...], option("--raw", metavar="FILE", is_local=always)] = ()
    websocket: shared.WebSocket = False
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    closed_loop: Annotated[bool, option("--closed-loop")] = False
    pairing: Annotated[
        str | None, option("--pairing", type=click.Choice(["time-sliced", "paired"]))
    ] = None
    objective: Annotated[str, option("--objective", type=param_types.LATENCY_OBJECTIVE)] = (
        "p99<10ms"
    )
    pipeline: Annotated[int, option("--pipeline", type=click.IntRange(1, 1024))] = 1
    keepalive: shared.KeepAlive = True
    unix: shared.Unix = False
    upstream: Annotated[str, option("--upstream", type=click.Choice(["tcp", "unix"]))] = "tcp"
    until: Annotated[str, option("--until", type=click.Choice(["decided"]))] = "decided"
    time_limit: Annotated[float | None, option("--for", type=param_types.TIME)] = None
    precision: Annotated[float | None, option("--precision", type=param_types.PERCENTAGE)] = None
    blocks: Annotated[int | None, option("--blocks", type=click.IntRange(1, 200))] = None
    check_blocks: Annotated[int | None, option("--check-blocks", type=click.IntRange(0, 200))] = (
        None
    )
    seed: shared.Seed = None
    server_cores: shared.ServerCores = None
    generator_cores: shared.GeneratorCores = None
    label: shared.Labels = ()
    baseline: Annotated[
        str | None, option("--baseline", metavar="REF|RELEASE|RUN", is_local=always)
    ] = None
    build: Annotated[str, option("--build", metavar="COMMAND", is_local=always)] = ""
    fail_if: Annotated[tuple[str, ...], option("--fail-if", metavar="BOUND")] = ()
    confirm: Annotated[bool, option("--confirm")] = False
    undecided: Annotated[str, option("--undecided", type=click.Choice(["fail", "ok"]))] = "fail"
    profile: Annotated[bool, option("--profile")] = False
