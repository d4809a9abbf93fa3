"""`jissoku compare`: who is faster, by how much, and is it proven?"""

import dataclasses
import datetime as dt
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku.cli import exits, flags
from jissoku.cli.contestants import FLOOR, Field, Wanted, folder_for, gather
from jissoku.cli.progress import Show
from jissoku.cli.publish import publish
from jissoku.cli.quantity import Rate
from jissoku.cli.shapes import shapes
from jissoku.cli.sides import sides
from jissoku.cli.version import version_line
from jissoku.design.mode import EFFORTS, Effort
from jissoku.errors import InputError
from jissoku.model import Mode, Reuse, Transport, Workload
from jissoku.pipeline import Contestant, Pace, Question, compare as run_campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said; the names are the options'."""

    arms: tuple[str, ...]
    quick: bool
    cmd: tuple[str, ...]
    url: tuple[str, ...]
    recipes: tuple[Path, ...]
    path: str
    method: str
    header: tuple[tuple[str, str], ...]
    body: str | None
    raw: tuple[Path, ...]
    connections: int
    rate: int | None
    closed_loop: bool
    pipeline: int
    keepalive: bool
    unix: bool
    blocks: int | None
    seed: int | None
    out: Path | None
    server_cores: str | None
    stopwatch_cores: str | None
    as_json: bool
    quiet: bool


@click.command()
@click.argument("arms", nargs=-1, metavar="[TARGET | NAME=TARGET]...")
@click.option(
    "--quick/--standard",
    default=True,
    help="Nine blocks of one second (the default), or 10 to 40 of three until all is within 1 %.",
)
@click.option(
    "--cmd",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Race a command; {port} (or {socket}) stands for where it is to listen.",
)
@click.option("--url", multiple=True, metavar="NAME=URL", help="Race a server that runs already.")
@flags.recipes
@flags.path
@click.option("-m", "--method", default="GET", show_default=True)
@flags.header
@click.option("--body", help="Sent with each request; @FILE reads it from a file.")
@click.option(
    "--raw",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A whole request; several are sent in rotation. {PATH} and {HOST} stand for the target's.",
)
@click.option(
    "-c",
    "--connections",
    default=64,
    show_default=True,
    type=click.IntRange(1, 20_000),
    help="Per arm.",
)
@click.option(
    "-R",
    "--rate",
    type=Rate(),
    help="Requests a second for the server's cores, in a duet half for each; else the lab chooses.",
)
@click.option(
    "--closed-loop",
    is_flag=True,
    help="In duets, too, every connection asks as soon as it was answered: cost at full load.",
)
@click.option(
    "--pipeline",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1024),
    help="Requests in flight on a connection.",
)
@flags.keepalive
@flags.unix
@click.option("--blocks", type=click.IntRange(1, 200), help="Exactly so many blocks.")
@click.option("--seed", type=click.IntRange(0), help="Decides every order, role and port.")
@flags.out
@flags.server_cores
@flags.stopwatch_cores
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@flags.quiet
def compare(**given: Any) -> int:
    """Race targets: same workload, randomised blocks, verdicts with intervals.

    The first target is the baseline. Without any, what can be raced here is. `jissoku targets`
    lists them; --cmd and --url race anybody's server. The floor, the least that a server can do
    here, always runs along.

    Exit codes: 0 fine, 1 a target failed, 2 bad input, 4 no verdict, 130 interrupted.
    """
    options = Options(**given)
    with Show(quiet=options.quiet or options.as_json) as show:
        wanted = Wanted(
            named=options.arms,
            commands=options.cmd,
            urls=options.url,
            recipes=options.recipes,
            path=options.path,
            unix=options.unix,
        )
        field = gather(wanted, show)
        question = _question(options, field)
        for lacking in field.missing:
            show.note(lacking.sentence)
        show.note(f"Seed {question.seed}; records go to {question.folder}.")
        finished = run_campaign(question, show)
    code = publish(question.folder, as_json=options.as_json)
    return code if finished else exits.INTERRUPTED


def _question(options: Options, field: Field) -> Question:
    names = [c.arm.name for c in field.contestants]
    mode = Mode.QUICK if options.quick else Mode.STANDARD
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    raced = [name for name in names if name != FLOOR]
    contestants, twin = field.contestants, ""
    if mode is Mode.STANDARD:
        first = contestants[0]
        twin = f"{first.arm.name} again"
        contestants = (*contestants, Contestant(first.prepared.arm(twin), first.prepared))
    return Question(
        contestants=contestants,
        twin=twin,
        floor=field.floor,
        missing=field.missing,
        workload=_workload(options),
        mode=mode,
        effort=_effort(mode, options.blocks),
        seed=secrets.randbelow(2**31) if options.seed is None else options.seed,
        cores=sides(options.server_cores, options.stopwatch_cores),
        folder=options.out or folder_for(raced, stamp),
        version=version_line(),
        pace=Pace.CLOSED if options.closed_loop else Pace.COMMON,
    )


def _effort(mode: Mode, blocks: int | None) -> Effort:
    effort = EFFORTS[mode]
    if blocks is None:
        return effort
    solo = min(effort.solo_blocks, blocks)
    return dataclasses.replace(effort, blocks=blocks, blocks_max=blocks, solo_blocks=solo)


def _workload(options: Options) -> Workload:
    if not options.path.startswith("/"):
        raise InputError(f"--path {options.path!r}: a path begins with /")
    if options.rate is not None and (options.closed_loop or options.pipeline > 1):
        bursts = "--closed-loop" if options.closed_loop else "--pipeline"
        raise InputError(f"-R spaces requests evenly and {bursts} does not: give one of the two")
    if options.raw and (options.header or options.body or options.method != "GET"):
        raise InputError("--raw is the whole request: leave out -m, -H and --body")
    return Workload(
        path=options.path,
        method=options.method,
        headers=options.header,
        body=_body(options.body),
        shapes=shapes(options.raw, keepalive=options.keepalive),
        connections=options.connections,
        pipeline=options.pipeline,
        reuse=Reuse.KEEP_ALIVE if options.keepalive else Reuse.CLOSE,
        rate_rps=options.rate,
        transport=Transport.UNIX if options.unix else Transport.TCP,
    )


def _body(given: str | None) -> bytes:
    if given is None:
        return b""
    if not given.startswith("@"):
        return given.encode()
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise InputError(f"--body {given}: {error.strerror}") from error
