"""`jissoku fleet`: the hosts of a fleet, and comparisons on all of them."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jissoku.cli.doctor import MARKS
from jissoku.cli.frame import ExitCode, print_message, version_line
from jissoku.cli.machines import write_machines_report
from jissoku.cli.progress import ProgressDisplay
from jissoku.errors import InputError, JissokuError
from jissoku.fleet import hosts, plan as plans
from jissoku.fleet.fleet_file import DEFAULT_FILE, Fleet, Host, read_fleet
from jissoku.fleet.hosts import HostState
from jissoku.fleet.machines import measure_machines
from jissoku.fleet.over_ssh import Examined, answered
from jissoku.measure.selection import folder_for
from jissoku.report.format import clean
from jissoku.request.shared import FILE

# What each word takes: hosts, nothing, or one place.
OF_HOSTS = ("init", "up", "hosts", "doctor", "down")
OF_RUNS = ("run", "resume", "pull", "status")
ACTIONS = (*OF_HOSTS, *OF_RUNS)

# What the others ask a host for, over ssh.
REMOTE = "over-ssh"


@click.command()
@click.argument("action", type=click.Choice([*ACTIONS, REMOTE]), metavar="|".join(ACTIONS))
@click.argument("words", nargs=-1, metavar="[HOST... | PLAN.toml | RUN]")
@click.option(
    "--fleet",
    "file",
    type=FILE,
    default=DEFAULT_FILE,
    show_default=True,
    help="File of the hosts, for init, up, hosts, doctor and down; its keys are beside it.",
)
@click.option(
    "--ssh", default="ssh", show_default=True, help="With init: words that begin each call of ssh."
)
@click.option(
    "--program", default="", metavar="PATH", help="With init: that of jissoku on the hosts."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records and reports of a plan. Default: a new one under runs/.",
)
@click.option("--quiet", is_flag=True, help="Print no progress.")
def fleet(
    action: str,
    words: tuple[str, ...],
    file: Path,
    ssh: str,
    program: str,
    out: Path | None,
    *,
    quiet: bool,
) -> int:
    """Start agents on hosts over SSH, and run comparisons on all of them.

    `init HOST...` asks hosts, by their names for ssh, and writes fleet.toml and keys for a week.
    `up` starts an agent on each host, `hosts` says which are there, `doctor` what would disturb a
    measurement, and `down` ends them. `jissoku compare --fleet fleet.toml` compares on all of them.

    `run PLAN.toml` runs the comparisons of a plan, with a queue for each machine: it begins the
    next one when it has ended the one before, whatever the others do. `resume RUN` continues,
    `pull RUN` copies what has come meanwhile and begins nothing, and `status RUN` prints what is
    here; RUN may also be that of `compare`. A host runs `over-ssh` for the others.

    Exit codes: 0 success, 1 a host failed or was lost, 2 bad input, 4 a comparison has no
    verdict, 130 interrupted.
    """
    if out is not None and action != "run":
        raise InputError(f"--out is for a new run: `fleet {action}` has none")
    if (program or ssh != "ssh") and action != "init":
        raise InputError(f"--ssh and --program are for init: later they are in {file}")
    if action == REMOTE:
        click.echo(answered(sys.stdin.buffer.read(), version_line()))
        return ExitCode.OK
    if action == "init":
        return _init(hosts.init(words, file, ssh, program, version_line()))
    if action in OF_HOSTS:
        if words:
            raise InputError(f"`fleet {action}` is for all hosts of {file}: leave out {words[0]}")
        return HOST_ACTIONS[action](read_fleet(file))
    if len(words) != 1:
        what = "one PLAN.toml" if action == "run" else "the folder of one RUN"
        raise InputError(f"`jissoku fleet {action}` needs {what}")
    return _comparisons(action, Path(words[0]), out, is_quiet=quiet)


def _init(fleet: Fleet) -> int:
    for host in fleet.hosts:
        click.echo(f"{host.name}: {host.address}")
    click.echo(f"{fleet.file} names them; their keys are valid for seven days: {fleet.keys}")
    click.echo("Next: `jissoku fleet up`.")
    return ExitCode.OK


class Answers:
    """Prints what comes of each host, and knows the exit code of all."""

    def __init__(self, show: Callable[[Host, Any], object]) -> None:
        self._show = show
        self._errors: list[JissokuError] = []

    def each(self, host: Host, result: object) -> None:
        if isinstance(result, JissokuError):
            self._errors.append(result)
            print_message(f"{host.name}: {result}")
        else:
            self._show(host, result)

    def code(self) -> ExitCode:
        """Bad input if all that is wrong is that."""
        if not self._errors:
            return ExitCode.OK
        is_input = all(isinstance(error, InputError) for error in self._errors)
        return ExitCode.BAD_INPUT if is_input else ExitCode.FAILED


def _print(host: Host, text: str) -> None:
    click.echo(f"{host.name}: {clean(text)}")


def _up(fleet: Fleet) -> int:
    answers = Answers(_print)
    hosts.up(fleet, version_line(), answers.each)
    return answers.code()


def _down(fleet: Fleet) -> int:
    answers = Answers(_print)
    hosts.down(fleet, version_line(), answers.each)
    return answers.code()


def _hosts(fleet: Fleet) -> int:
    found: dict[str, HostState] = {}
    answers = Answers(lambda host, state: found.update({host.name: state}))
    hosts.look(fleet, version_line(), answers.each)
    table = Table("host", "agent", "cores", "CPU", "clock", "now", box=None, pad_edge=False)
    for host in fleet.hosts:
        if host.name in found:
            table.add_row(host.name, host.address, *_cells(found[host.name]))
    if found:
        Console(highlight=False).print(table)
        click.echo(f"{len(found)} of {len(fleet.hosts)} hosts have {version_line()}.")
    return answers.code()


def _cells(state: HostState) -> tuple[str, ...]:
    clock = f"± {state.clock.error_ns / 1e3:,.0f} µs"
    model, busy = clean(state.machine.cpu_model), clean(state.busy)
    return str(state.machine.cores), escape(model), clock, escape(busy) or "free"


def _doctor(fleet: Fleet) -> int:
    states: dict[str, HostState] = {}
    found: dict[str, Examined] = {}
    answers = Answers(lambda host, state: states.update({host.name: state}))
    hosts.look(fleet, version_line(), answers.each)
    examining = Answers(lambda host, one: found.update({host.name: one}))
    hosts.examine(fleet, version_line(), examining.each)
    table = Table("", "what", "hosts", "seen", "what to do", box=None, pad_edge=False)
    for check, names in hosts.findings(fleet, states, found).items():
        texts = (check.name, " ".join(names), check.observed, check.advice)
        table.add_row(MARKS[check.state], *(escape(clean(text)) for text in texts))
    if table.rows:
        Console(highlight=False).print(table)
    return max(answers.code(), examining.code())


HOST_ACTIONS: dict[str, Callable[[Fleet], int]] = {
    "up": _up,
    "hosts": _hosts,
    "doctor": _doctor,
    "down": _down,
}


def _comparisons(action: str, place: Path, out: Path | None, *, is_quiet: bool) -> int:
    if action in {"status", "pull"}:
        if action == "pull":
            note = partial(click.echo, err=True)
            found = plans.resumed_plans(place, version_line())
            _, lost = measure_machines(found, note, takes_only=True)
            if lost:
                raise JissokuError(lost)
        for line in plans.status(place):
            click.echo(line)
        return ExitCode.OK
    with ProgressDisplay(quiet=is_quiet) as show:
        if action == "run":
            folder = out or folder_for("fleet", place.stem)
            found = plans.new_plans(place, folder, version_line())
        else:
            folder, found = place, plans.resumed_plans(place, version_line())
        show.note(f"{len(found)} comparisons; records go to {folder}.")
        finished, lost = measure_machines(found, show.note, is_resumed=action == "resume")
    codes = []
    for one in found:
        click.echo(f"{one.folder.name}:")
        codes.append(write_machines_report(one.folder, as_json=False))
    if lost:
        print_message(f"{lost}; `jissoku fleet resume {folder}` continues.")
        return ExitCode.FAILED
    if not finished:
        return ExitCode.INTERRUPTED
    return min((code for code in codes if code), default=ExitCode.OK)
