"""What `sweep`, `profile`, `tune`, `explain`, `run` and `bisect` are asked."""

from typing import Annotated

import click
import msgspec

from jissoku.request import param_types, shared
from jissoku.request.options import always, option

# What `jissoku explain` can observe, in order.
PROBES = ("wire", "syscalls", "load", "functions", "memory", "timers", "floor")

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
    over: Annotated[
        str, option("--over", type=click.Choice(["connections", "workers", "rate"]))
    ] = "connections"
    levels: Annotated[
        tuple[int, ...] | None, option("--levels", type=param_types.LEVELS, metavar="LIST")
    ] = None
    at: Annotated[
        tuple[int, ...] | None, option("--at", type=param_types.LEVELS, metavar="LIST")
    ] = None
    quick: Annotated[bool, option("--quick/--standard")] = True
    blocks: Annotated[int, option("--blocks", type=click.IntRange(SWEEP_BLOCKS_MIN, 200))] = (
        SWEEP_BLOCKS
    )
    cmd: Annotated[tuple[str, ...], shared.COMMANDS] = ()
    url: Annotated[tuple[str, ...], shared.URLS] = ()
    recipes: shared.Recipes = ()
    path: shared.Path = "/"
    header: shared.Headers = ()
    connections: Annotated[int, shared.CONNECTIONS] = 64
    keepalive: shared.KeepAlive = True
    unix: shared.Unix = False
    seed: shared.Seed = None
    server_cores: shared.ServerCores = None
    generator_cores: shared.GeneratorCores = None


class ProfileRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="profile"):
    """Targets and load of a profile, as they were asked for; `duration` in seconds.

    Attributes:
        cmd: Profile a command; {port} (or {socket}) is replaced by its address.
        url: Profile a server that runs here already.
        connections: Connections of the load.
        rate: Request rate in requests per second. Default: the highest of 1,000, 5,000 and
            20,000 per core that is at most 60 % of the target's closed-loop rate.
        duration: Length of the measurement window. Twice the time makes intervals a third
            narrower.
        frequency: Samples per second of CPU time.
    """

    arms: Annotated[tuple[str, ...], option(metavar="[TARGET | NAME=TARGET]...")] = ()
    cmd: Annotated[tuple[str, ...], shared.COMMANDS] = ()
    url: Annotated[tuple[str, ...], shared.URLS] = ()
    recipes: shared.Recipes = ()
    path: shared.Path = "/"
    header: shared.Headers = ()
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    duration: Annotated[
        float, option("-d", "--duration", type=click.FloatRange(0.5, 86400), metavar="SECONDS")
    ] = 20.0
    frequency: Annotated[int, option("-F", "--frequency", type=click.IntRange(1, 20000))] = 199
    keepalive: shared.KeepAlive = True
    websocket: shared.WebSocket = False
    unix: shared.Unix = False
    seed: shared.Seed = None
    server_cores: shared.ServerCores = None
    generator_cores: shared.GeneratorCores = None


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
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    standard: Annotated[bool, option("--standard")] = False
    seed: shared.Seed = None


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
    connections: Annotated[int, shared.CONNECTIONS] = 64
    keepalive: shared.KeepAlive = True
    rate: Annotated[int | None, shared.RATE] = None
    seed: Annotated[int, option("--seed", type=click.IntRange(0))] = 1
    probe: Annotated[tuple[str, ...], option("--probe", type=click.Choice(PROBES))] = ()
    verify: Annotated[bool, option("--verify")] = False
    standard: Annotated[bool, option("--standard")] = False


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


class BisectionRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="bisect"):
    """Commits and bound of a bisection, as they were asked for.

    Attributes:
        cmd: Starts the server in a worktree's folder; {port} is replaced by its port.
        build: Builds a commit in its worktree.
        fail_if: Bound that is exceeded from the searched commit on; arms are good and
            candidate.
        connections: Connections per arm.
        rate: Rate in requests per second. Default: chosen.
    """

    good: Annotated[str, option()]
    bad: Annotated[str, option()]
    cmd: Annotated[str, option("--cmd", metavar="COMMAND", is_local=always)]
    build: Annotated[str, option("--build", metavar="COMMAND", is_local=always)] = ""
    fail_if: Annotated[str, option("--fail-if", metavar="BOUND")] = (
        "cost(candidate) > 1.01 x cost(good)"
    )
    path: shared.Path = "/"
    connections: Annotated[int, shared.CONNECTIONS] = 64
    rate: Annotated[int | None, shared.RATE] = None
    seed: shared.Seed = None
