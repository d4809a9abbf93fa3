"""What measuring commands are asked: one frozen struct for each."""

from typing import Annotated

import msgspec
from click import Choice, IntRange

from jissoku.request import shared
from jissoku.request.options import always, option
from jissoku.request.param_types import LATENCY_OBJECTIVE, LEVELS, METHOD, PERCENTAGE, TIME, WINDOW


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
            known by then; it begins with the first start of a target.
        precision: End when every interval is within this of its ratio, such as 1%, instead
            of when every pair is decided.
        blocks: Fixed number of blocks, with a single look after the last one.
        check_blocks: Blocks that also measure each target alone and with the other slice
            length. Default: 2 in quick mode, 6 in standard mode.
        machine: Have the host of this agent run the whole comparison, servers and load; repeatable:
            each machine has its verdict, and all together one.
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
    method: Annotated[str, option("-m", "--method", type=METHOD)] = "GET"
    header: shared.Headers = ()
    match: shared.Match = "bytes"
    body: Annotated[str | None, option("--body", is_local=lambda text: text.startswith("@"))] = None
    raw: Annotated[tuple[str, ...], option("--raw", metavar="FILE", is_local=always)] = ()
    websocket: shared.WebSocket = False
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    closed_loop: Annotated[bool, option("--closed-loop")] = False
    pairing: Annotated[str | None, option("--pairing", type=Choice(["time-sliced", "paired"]))] = (
        None
    )
    objective: Annotated[str, option("--objective", type=LATENCY_OBJECTIVE)] = "p99<10ms"
    pipeline: Annotated[int, option("--pipeline", type=IntRange(1, 1024))] = 1
    keepalive: shared.KeepAlive = True
    unix: shared.Unix = False
    upstream: Annotated[str, option("--upstream", type=Choice(["tcp", "unix"]))] = "tcp"
    until: Annotated[str, option("--until", type=Choice(["decided"]))] = "decided"
    time_limit: Annotated[float | None, option("--for", type=TIME)] = None
    precision: Annotated[float | None, option("--precision", type=PERCENTAGE)] = None
    blocks: Annotated[int | None, option("--blocks", type=IntRange(1, 200))] = None
    check_blocks: Annotated[int | None, option("--check-blocks", type=IntRange(0, 200))] = None
    seed: shared.Seed = None
    server_cores: shared.ServerCores = None
    generator_cores: shared.GeneratorCores = None
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""
    load_host: shared.LoadHosts = ()
    machine: Annotated[shared.Texts, option("--machine", metavar="HOST:PORT", is_local=always)] = ()
    label: shared.Labels = ()
    baseline: Annotated[
        str | None, option("--baseline", metavar="REF|RELEASE|RUN", is_local=always)
    ] = None
    build: Annotated[str, option("--build", metavar="COMMAND", is_local=always)] = ""
    fail_if: Annotated[tuple[str, ...], option("--fail-if", metavar="BOUND")] = ()
    confirm: Annotated[bool, option("--confirm")] = False
    undecided: Annotated[str, option("--undecided", type=Choice(["fail", "ok"]))] = "fail"
    profile: Annotated[bool, option("--profile")] = False


# What `jissoku explain` can observe, in order.
PROBES = ("wire", "syscalls", "load", "waits", "functions", "memory", "timers", "floor")

# Blocks of a sweep: intervals from fewer are too wide to be useful; and by default.
SWEEP_BLOCKS_MIN, SWEEP_BLOCKS = 3, 6


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="sweep"):
    """Targets and levels of a sweep, as they were asked for.

    Attributes:
        over: The factor to vary.
        levels: Levels, such as 1,2,4-8; at least six. Default: chosen for the factor.
        at: Levels at which to predict the rate, if the fit supports it.
        quick: Windows of 0.4 s (the default), or of 2 s.
        blocks: How often each level is measured.
        cmd: A command; {port} (or {socket}) and {workers} are filled in.
        url: An external server at this URL.
        connections: Connections, where they are not the factor.
    """

    arms: Annotated[tuple[str, ...], option(metavar="TARGET [TARGET | NAME=TARGET]...")] = ()
    over: Annotated[str, option("--over", type=Choice(["connections", "workers", "rate"]))] = (
        "connections"
    )
    levels: Annotated[tuple[int, ...] | None, option("--levels", type=LEVELS, metavar="LIST")] = (
        None
    )
    at: Annotated[tuple[int, ...] | None, option("--at", type=LEVELS, metavar="LIST")] = None
    quick: Annotated[bool, option("--quick/--standard")] = True
    blocks: Annotated[int, option("--blocks", type=IntRange(SWEEP_BLOCKS_MIN, 200))] = SWEEP_BLOCKS
    cmd: Annotated[tuple[str, ...], shared.COMMANDS] = ()
    url: Annotated[tuple[str, ...], shared.URLS] = ()
    recipes: shared.Recipes = ()
    path: shared.Path = "/"
    header: shared.Headers = ()
    match: shared.Match = "bytes"
    connections: Annotated[int, shared.CONNECTIONS] = 64
    keepalive: shared.KeepAlive = True
    unix: shared.Unix = False
    seed: shared.Seed = None
    server_cores: shared.ServerCores = None
    generator_cores: shared.GeneratorCores = None
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""


class ProfileRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="profile"):
    """Targets and load of a profile, as they were asked for; `duration` in seconds.

    Attributes:
        cmd: Profile a command; {port} (or {socket}) is replaced by its address.
        url: Profile a server that runs here already.
        connections: Connections of the load.
        rate: Request rate in requests per second. Default: half of the rate that
            the target (of two, the slower) answers in a closed loop, at most 20,000 per core.
        duration: Length of the measurement window, such as 20s or 1m30s. Twice the time makes
            intervals a third narrower.
        frequency: Samples per second of CPU time.
        sort: Order of the functions: by their own time, or by that with callees.
    """

    arms: Annotated[tuple[str, ...], option(metavar="[TARGET | NAME=TARGET]...")] = ()
    cmd: Annotated[tuple[str, ...], shared.COMMANDS] = ()
    url: Annotated[tuple[str, ...], shared.URLS] = ()
    recipes: shared.Recipes = ()
    path: shared.Path = "/"
    header: shared.Headers = ()
    match: shared.Match = "bytes"
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    duration: Annotated[float, option("-d", "--duration", type=WINDOW, metavar="TIME")] = 20.0
    frequency: Annotated[int, option("-F", "--frequency", type=IntRange(1, 20000))] = 199
    sort: Annotated[str, option("--sort", type=Choice(["self", "total"]))] = "self"
    keepalive: shared.KeepAlive = True
    websocket: shared.WebSocket = False
    unix: shared.Unix = False
    seed: shared.Seed = None
    server_cores: shared.ServerCores = None
    generator_cores: shared.GeneratorCores = None
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""


class TuningRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="tune"):
    """The target and the knobs of a tuning, as they were asked for.

    Attributes:
        knobs: Knobs to test, comma-separated. Default: all of the recipe.
        connections: Connections per target.
        rate: Total request rate in requests per second. Default: chosen by a pilot run.
        standard: 10 to 40 blocks with windows of 2 s, instead of nine with windows of 0.4
            s.
    """

    target: Annotated[str, option()]
    config: shared.Config = None
    knobs: Annotated[str, option("--knobs", metavar="A,B")] = ""
    listen: shared.Listen = ""
    path: shared.Path = "/"
    header: shared.Headers = ()
    match: shared.Match = "bytes"
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    standard: Annotated[bool, option("--standard")] = False
    seed: shared.Seed = None
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""


class ExplanationRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="explain"
):
    """The target and the load of an explanation, as they were asked for.

    Attributes:
        cmd: Start a command; {port} is replaced by its port.
        url: Explain an external server at this URL.
        connections: Connections of the load.
        rate: Request rate in requests per second. Default: closed loop.
        seed: Seed of all random choices (ports, orders).
        time_limit: Begin no observation after this time, such as 20s; those that are missing are
            named. Default: all are made, in about half a minute.
        probe: Only observe this; may be repeated. Default: everything.
        verify: Test the knobs for the causes found, and report which pay.
        standard: With --verify: 10 to 40 blocks with windows of 2 s, instead of nine of 0.4
            s.
    """

    target: Annotated[str | None, option()] = None
    cmd: Annotated[str | None, shared.COMMANDS] = None
    url: Annotated[str | None, shared.URLS] = None
    recipes: shared.Recipes = ()
    config: shared.Config = None
    listen: shared.Listen = ""
    path: shared.Path = "/"
    header: shared.Headers = ()
    match: shared.Match = "bytes"
    connections: Annotated[int, shared.CONNECTIONS] = 64
    keepalive: shared.KeepAlive = True
    rate: Annotated[int | None, shared.RATE] = None
    seed: Annotated[int, option("--seed", type=IntRange(0))] = 1
    time_limit: Annotated[float | None, option("--for", type=TIME)] = None
    probe: Annotated[tuple[str, ...], option("--probe", type=Choice(PROBES))] = ()
    verify: Annotated[bool, option("--verify")] = False
    standard: Annotated[bool, option("--standard")] = False
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""


class ExperimentRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="run"):
    """An experiment, by name or file, as it was asked for.

    Attributes:
        quick: Six minutes (the default), or about sixteen with narrower intervals.
    """

    name: Annotated[
        str | None, option(metavar="[EXPERIMENT]", is_local=lambda text: text.endswith(".toml"))
    ] = None
    quick: Annotated[bool, option("--quick/--standard")] = True
    recipes: shared.Recipes = ()
    seed: shared.Seed = None
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""


class BisectionRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="bisect"):
    """Commits and bound of a bisection, as they were asked for.

    Attributes:
        cmd: Starts the server in a worktree's folder; {port} is replaced by its port.
        build: Builds a commit in its worktree.
        fail_if: Bound that is exceeded from the searched commit on, such as
            'cost(candidate) > 1.01 x cost(good)'. Default: half of the increase of CPU time
            that BAD has.
        time_limit: End after measuring for this time at the latest, such as 10m. Default: a
            minute for each step.
        connections: Connections per arm.
        rate: Rate in requests per second. Default: chosen.
    """

    good: Annotated[str, option()]
    bad: Annotated[str, option()]
    cmd: Annotated[str, option("--cmd", metavar="COMMAND", is_local=always)]
    build: Annotated[str, option("--build", metavar="COMMAND", is_local=always)] = ""
    fail_if: Annotated[str, option("--fail-if", metavar="BOUND")] = ""
    time_limit: Annotated[float | None, option("--for", type=TIME)] = None
    path: shared.Path = "/"
    match: shared.Match = "bytes"
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    seed: shared.Seed = None
    server_host: shared.ServerHost = ""
    server_keys: shared.ServerKeys = ""
