"""`jissoku sweep`: how a target scales with connections, workers or rate."""

import datetime as dt
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku.cli import exits, flags
from jissoku.cli.contestants import Wanted, folder_for, gather
from jissoku.cli.progress import Show
from jissoku.cli.publish import publish
from jissoku.cli.quantity import Rate
from jissoku.cli.sides import sides
from jissoku.cli.version import version_line
from jissoku.design import levels as plan
from jissoku.design.mode import EFFORTS
from jissoku.errors import InputError
from jissoku.model import Axis, Cores, Mode, Reuse, Sweep, Transport, Workload
from jissoku.pipeline import Climbing, climb
from jissoku.pipeline.bench import Window

RANGE = re.compile(r"(\d+)-(\d+)")
LEVELS_MAX = 64


class Levels(click.ParamType[tuple[int, ...]]):
    """Levels as people write them: `1,2,4-8` or `5k,10k`."""

    name = "levels"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Reads the list, or refuses it in one sentence."""
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        for word in str(value).split(","):
            both = RANGE.fullmatch(word)
            if both is None:
                found.append(Rate().convert(word, param, ctx))
            elif int(both[2]) - int(both[1]) <= LEVELS_MAX:
                found.extend(range(int(both[1]), int(both[2]) + 1))
            else:
                self.fail(f"{word!r} is more than {LEVELS_MAX} levels: name fewer", param, ctx)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said; the names are the options'."""

    arms: tuple[str, ...]
    over: str
    levels: tuple[int, ...] | None
    at: tuple[int, ...] | None
    quick: bool
    blocks: int
    cmd: tuple[str, ...]
    url: tuple[str, ...]
    recipes: tuple[Path, ...]
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    keepalive: bool
    unix: bool
    seed: int | None
    out: Path | None
    server_cores: str | None
    stopwatch_cores: str | None
    as_json: bool
    quiet: bool


@click.command()
@click.argument("arms", nargs=-1, metavar="TARGET [TARGET | NAME=TARGET]...")
@click.option(
    "--over",
    type=click.Choice([str(axis) for axis in Axis]),
    default=str(Axis.CONNECTIONS),
    show_default=True,
    help="What is varied; everything else stays.",
)
@click.option("--levels", type=Levels(), metavar="LIST", help="As in 1,2,4-8: at least six.")
@click.option(
    "--at", type=Levels(), metavar="LIST", help="State the rate here, if the fit supports it."
)
@click.option(
    "--quick/--standard", default=True, help="Windows of one second (the default), or of three."
)
@click.option(
    "--blocks",
    type=click.IntRange(plan.BLOCKS_MIN, 200),
    default=plan.BLOCKS,
    show_default=True,
    help="How often each level is measured.",
)
@click.option(
    "--cmd",
    multiple=True,
    metavar="NAME=COMMAND",
    help="A command; {port} (or {socket}) and {workers} are filled in.",
)
@click.option("--url", multiple=True, metavar="NAME=URL", help="A server that runs already.")
@flags.recipes
@flags.path
@flags.header
@click.option(
    "-c",
    "--connections",
    default=64,
    show_default=True,
    type=click.IntRange(1, 20_000),
    help="Where connections are not what is varied.",
)
@flags.keepalive
@flags.unix
@click.option("--seed", type=click.IntRange(0), help="Decides every order and port.")
@flags.out
@flags.server_cores
@flags.stopwatch_cores
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@flags.quiet
def sweep(**given: Any) -> int:
    """Sweep connections, workers or rate, and fit the Universal Scalability Law.

    Each level is measured in every block, in random order. A peak is told only where it is proven
    that there is one, and a capacity only where the fit supports it.

    Exit codes: 0 fine, 1 a target failed, 2 bad input, 4 nothing could be fitted or was sustained,
    130 interrupted.
    """
    options = Options(**given)
    if not (options.arms or options.cmd or options.url):
        raise InputError("name a target to sweep, see `jissoku targets`")
    with Show(quiet=options.quiet or options.as_json) as show:
        question = _question(options, show)
        show.note(f"Seed {question.seed}; records go to {question.folder}.")
        finished = climb(question, show)
    code = publish(question.folder, as_json=options.as_json)
    return code if finished else exits.INTERRUPTED


def _question(options: Options, show: Show) -> Climbing:
    if not options.path.startswith("/"):
        raise InputError(f"--path {options.path!r}: a path begins with /")
    cores = sides(options.server_cores, options.stopwatch_cores)
    asked = _sweep(options, cores)
    wanted = Wanted(
        named=options.arms,
        commands=options.cmd,
        urls=options.url,
        recipes=options.recipes,
        path=options.path,
        unix=options.unix,
        floor=False,
    )
    field = gather(wanted, show)
    mode = Mode.QUICK if options.quick else Mode.STANDARD
    effort = EFFORTS[mode]
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    names = [contestant.arm.name for contestant in field.contestants]
    return Climbing(
        contestants=field.contestants,
        missing=field.missing,
        sweep=asked,
        workload=Workload(
            path=options.path,
            headers=options.header,
            connections=options.connections,
            reuse=Reuse.KEEP_ALIVE if options.keepalive else Reuse.CLOSE,
            transport=Transport.UNIX if options.unix else Transport.TCP,
        ),
        mode=mode,
        window=Window(effort.warmup_ns, effort.window_ns),
        seed=secrets.randbelow(2**31) if options.seed is None else options.seed,
        cores=cores,
        folder=options.out or folder_for(["sweep", *names], stamp),
        version=version_line(),
    )


def _sweep(options: Options, cores: Cores) -> Sweep:
    axis = Axis(options.over)
    levels = plan.levels_of(axis, len(cores.server))
    if options.levels is not None:
        levels = plan.checked(options.levels)
    if options.at is not None and axis is Axis.RATE:
        raise InputError("--at needs a law, and none is fitted over rates: leave one of them out")
    return Sweep(
        axis=axis,
        levels=levels,
        blocks=options.blocks,
        at=tuple(sorted(set(options.at or ()))),
    )
