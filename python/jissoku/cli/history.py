"""Verbs over earlier runs: `jissoku history`, `jissoku diff` and `jissoku publish`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click
import msgspec
from rich.console import Console
from rich.table import Table

from jissoku.cli.frame import ExitCode, print_message
from jissoku.errors import InputError
from jissoku.history import index as queries
from jissoku.inference.series import machine_ratios
from jissoku.measure.history import History, find_run, open_history
from jissoku.model.history import Series
from jissoku.model.wording import plural
from jissoku.records import files
from jissoku.records.run_folder import holds_run
from jissoku.report import history as texts
from jissoku.request.options import asking, option, verb
from jissoku.request.shared import DIRECTORY, FILE, Records


class HistoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command.

    Attributes:
        changes: Suspected changes of TARGET, or of all.
        confirm: Measure both programs of each suspected change together, and report what is proven.
        dismiss: Dismiss the suspected change with this key of --changes, for a --reason.
        reason: With --dismiss: why; empty: the change is open again.
        machines: TARGET on each class of machines.
        sql: Answer a query over the tables of the index.
        export: Write the tables into a new SQLite file.
        html: Write static pages of all runs and targets: `jissoku serve DIR` serves them.
    """

    target: Annotated[str | None, option()] = None
    records: Records = ()
    changes: Annotated[bool, option("--changes")] = False
    confirm: Annotated[bool, option("--confirm")] = False
    dismiss: Annotated[str | None, option("--dismiss", metavar="KEY")] = None
    reason: Annotated[str | None, option("--reason", metavar="TEXT")] = None
    machines: Annotated[bool, option("--machines")] = False
    sql: Annotated[str | None, option("--sql", metavar="QUERY")] = None
    export: Annotated[Path | None, option("--export", type=FILE, metavar="FILE")] = None
    html: Annotated[Path | None, option("--html", type=DIRECTORY, metavar="DIR")] = None


class RecordsOption(msgspec.Struct, frozen=True, kw_only=True):
    records: Records = ()


@verb(HistoryOptions)
def history(options: HistoryOptions) -> int:
    """List earlier runs, or show how the cost of TARGET changed over them.

    Costs of different runs are compared only through arms that are the same program in both, and
    never across workloads, rates, cores or machines. A change is at most suspected; the command
    that measures both versions together, and would prove it, is printed.

    The index of runs is a cache: it is built from the records, and rebuilt after deletion.

    Exit codes: 0 success, 2 bad input, 3 --changes found a suspicion or --confirm proved one,
    4 --confirm left one open, 130 interrupted.
    """
    if options.machines and options.target is None:
        raise InputError("--machines needs a target: jissoku history nginx --machines")
    if (options.dismiss is None) is not (options.reason is None):
        raise InputError("--dismiss and --reason belong together: --dismiss KEY --reason TEXT")
    roots = options.records or (Path("runs"),)
    found = open_history(roots, print_message)
    for sentence in found.broken:
        print_message(sentence)
    if options.sql is not None:
        _print_rows(found, options.sql)
    elif options.export is not None:
        queries.export(found.session, found.index, options.export)
        click.echo(f"Tables: {options.export}")
    elif options.html is not None:
        # Imports the laboratory, which a list does not need.
        from jissoku.measure.publishing import write_history  # noqa: PLC0415

        named = [f"--records {root}" for root in roots]
        command = " ".join(["jissoku history", *named, "--html DIR"])
        count = write_history(options.html, found, command, roots)
        click.echo(f"{count} pages: {options.html / 'index.html'}")
    elif options.dismiss is not None:
        _dismiss(found, roots[0], options.dismiss, options.reason or "")
    elif options.changes or options.confirm:
        return _changes(found, options.target, roots, confirm=options.confirm)
    else:
        click.echo(_text(found, options), nl=False)
    return ExitCode.OK


def _text(found: History, options: HistoryOptions) -> str:
    if options.target is None:
        return texts.runs_text(found.headers())
    series = _series(found, options.target)
    if options.machines:
        return texts.machines_text(machine_ratios(series))
    return texts.history_text(options.target, series)


def _series(found: History, target: str) -> tuple[Series, ...]:
    known = found.targets()
    if target not in known:
        raise InputError(f"no run has {target!r}; there are {', '.join(known)}")
    return found.series(target)


def _changes(found: History, target: str | None, roots: Sequence[Path], *, confirm: bool) -> int:
    targets = [target] if target else found.targets()
    every = texts.suspicions([series for name in targets for series in _series(found, name)])
    suspected, dismissed = texts.divided(every, files.read_dismissals(roots))
    if confirm and suspected:
        # Imports the laboratory, which a list does not need.
        from jissoku.cli.compare import confirm as measure  # noqa: PLC0415

        return measure(suspected)
    click.echo("\n".join(map(texts.suspicion_text, suspected)) or "No change is suspected.")
    for one, dismissal in dismissed:
        click.echo(texts.dismissed_text(one, dismissal))
    return ExitCode.BOUND_EXCEEDED if suspected else ExitCode.OK


def _dismiss(found: History, root: Path, key: str, reason: str) -> None:
    series = [one for name in found.targets() for one in found.series(name)]
    one = texts.with_key(texts.suspicions(series), key)
    files.dismiss(root, key, one.series.target, reason)
    click.echo(f"{'Dismissed' if reason.strip() else 'Open again'}: {key}")


def _print_rows(found: History, query: str) -> None:
    columns, rows = queries.answer(found.session, found.index, query)
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    Console(highlight=False, markup=False, soft_wrap=True).print(table)


@click.command()
@click.argument("runs", nargs=2, metavar="RUN RUN")
@asking(RecordsOption)
def diff(runs: tuple[str, str], records: tuple[Path, ...]) -> int:
    """Compare two runs through the arms that are the same program in both.

    A RUN is a folder, or the beginning of a key that `jissoku history` prints. Two runs that share
    no such arm, or differ in workload, rate, cores or machine, are not comparable: the reasons are
    printed, and the command that measures the arms of both together.

    Exit codes: 0 compared, 2 bad input, 4 not comparable.
    """
    folders = [Path(name) for name in runs if holds_run(Path(name))]
    roots = records or ((Path("runs"),) if len(folders) < len(runs) else ())
    found = open_history((*roots, *folders), print_message)
    first, second = (find_run(found.headers(), name).row.run for name in runs)
    answer = found.difference(first, second)
    click.echo(texts.difference_text(answer), nl=False)
    return ExitCode.UNDECIDED if answer.obstacles else ExitCode.OK


@click.command()
@click.argument("folder", type=DIRECTORY, metavar="DIR")
@asking(RecordsOption)
def publish(folder: Path, records: tuple[Path, ...]) -> int:
    """Write all runs as static pages with their records into a new folder, to be published.

    Paths, user, host and the machine's label are removed from the records; processor, cores, kernel
    and versions stay, because results depend on them. The pages can be checked:
    `jissoku publish NEW --records DIR/records` makes the same bytes, and SHA256SUMS lists them.

    Exit codes: 0 success, 2 bad input.
    """
    # Imports the laboratory, which the other verbs here do not need.
    from jissoku.measure.publishing import publish as write  # noqa: PLC0415

    count = write(folder, records or (Path("runs"),), print_message)
    click.echo(f"{count} {plural(count, 'run')}: {folder / 'index.html'}")
    return ExitCode.OK
