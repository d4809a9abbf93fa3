"""`jissoku tune`: which knobs pay, and is it proven?"""

import datetime as dt
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jissoku import report
from jissoku.cli import exits, flags
from jissoku.cli.progress import Show
from jissoku.cli.publish import write
from jissoku.cli.quantity import Rate
from jissoku.cli.subjects import subject
from jissoku.cli.version import version_line
from jissoku.design.mode import EFFORTS
from jissoku.errors import InputError
from jissoku.model import Decision, Knob, Mode, Recipe, Tuning, Workload
from jissoku.observe import cores
from jissoku.pipeline.tune import tune as run_tuning
from jissoku.pipeline.tuned import Conduct
from jissoku.targets import catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said; the names are the options'."""

    target: str
    config: Path | None
    knobs: str
    listen: str
    path: str
    header: tuple[tuple[str, str], ...]
    connections: int
    rate: int | None
    standard: bool
    seed: int | None
    out: Path | None
    as_json: bool
    quiet: bool


@click.command()
@click.argument("target")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A configuration of your own, for nginx; it is read, and never changed.",
)
@click.option("--knobs", default="", metavar="A,B", help="Try these only.")
@click.option(
    "--listen",
    default="",
    metavar="ADDRESS",
    help="The address of the configuration that is asked, as it stands behind its listen.",
)
@flags.path
@flags.header
@click.option(
    "-c",
    "--connections",
    default=64,
    show_default=True,
    type=click.IntRange(1, 20_000),
    help="Per arm.",
)
@click.option("-R", "--rate", type=Rate(), help="Requests a second; else the lab chooses.")
@click.option(
    "--standard",
    is_flag=True,
    help="10 to 40 blocks of three seconds instead of nine of one.",
)
@click.option("--seed", type=click.IntRange(0), help="Decides every order, role and port.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for records, report and diff.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@flags.quiet
def tune(**given: Any) -> int:
    """Try a target's knobs, and prove those that pay.

    Each is tried alone, all together, and all but each; a knob is accepted only when its effect's
    interval clears the minimum effect, the counter that it should move has moved, and the answers
    are the same bytes. The accepted ones are then held together against the configuration as it is,
    on fresh blocks, and written out as a diff.

    Exit codes: 0 fine, 1 the work failed, 2 bad input, 4 undecided, 130 interrupted.
    """
    options = Options(**given)
    recipe = catalogue.pick(catalogue.recipes(), options.target)
    chosen = _chosen(recipe, options.knobs)
    with Show(quiet=options.quiet or options.as_json) as show:
        tuned = subject(recipe, chosen, config=options.config, listen=options.listen)
        conduct = _conduct(options)
        show.note(f"Seed {conduct.seed}; records go to {conduct.folder}.")
        found = run_tuning(tuned, conduct, show)
    return _publish(found, conduct.folder, as_json=options.as_json)


def _chosen(recipe: Recipe, names: str) -> tuple[Knob, ...]:
    if not names:
        return recipe.knob
    known = {knob.name: knob for knob in recipe.knob}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise InputError(
                f"{recipe.name} has no knob {name!r}; it has {', '.join(known) or 'none'}"
            )
    return tuple(known[name] for name in dict.fromkeys(wanted))


def _conduct(options: Options) -> Conduct:
    if not options.path.startswith("/"):
        raise InputError(f"--path {options.path!r}: a path begins with /")
    mode = Mode.STANDARD if options.standard else Mode.QUICK
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    return Conduct(
        workload=Workload(
            path=options.path,
            headers=options.header,
            connections=options.connections,
            rate_rps=options.rate,
        ),
        mode=mode,
        effort=EFFORTS[mode],
        seed=secrets.randbelow(2**31) if options.seed is None else options.seed,
        cores=cores.split(cores.allowed()),
        folder=options.out or Path("runs") / f"{stamp}-tune-{options.target}",
        version=version_line(),
    )


def _publish(found: Tuning, folder: Path, *, as_json: bool) -> int:
    texts = {
        "tuning.json": report.tuning_to_json(found),
        "tuning.txt": report.tuning_to_text(found),
    }
    if found.diff:
        texts["proven.diff"] = found.diff
    write(folder, texts)
    click.echo(texts["tuning.json" if as_json else "tuning.txt"], nl=False)
    if not as_json:
        click.echo(f"\nRecords and report: {folder}")
    return exit_code(found)


def exit_code(found: Tuning) -> int:
    """What a tuning means to a script."""
    if not found.finished:
        return exits.INTERRUPTED
    decisions = [remedy.decision for remedy in found.remedies]
    if decisions and all(decision is Decision.BROKEN for decision in decisions):
        return exits.FAILED
    if Decision.UNDECIDED in decisions or (Decision.ACCEPTED in decisions and not found.proven):
        return exits.UNDECIDED
    return exits.FINE
