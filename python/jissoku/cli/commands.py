"""The commands, and how errors are reported: one sentence and an exit code."""

import difflib
import errno
import importlib
import sys

import click

from jissoku.cli.frame import ExitCode, print_message, version_line
from jissoku.errors import InputError, JissokuError, TargetError

# A command's module is imported when it is used: importing the statistics takes a second.
LAB_COMMANDS = {
    "Measure": {
        "compare": "Compare targets: same workload, randomised blocks, verdicts with intervals.",
        "sweep": "Sweep connections, workers or rate: how a target scales, with intervals.",
        "run": "Run an experiment, and evaluate its claims.",
        "bisect": "Find the commit from which on a server costs more.",
    },
    "Understand": {
        "explain": "Find the causes of a target's CPU cost and latency, with evidence.",
        "profile": "Show which functions a target's CPU time per request goes to.",
        "tune": "Test a target's knobs, and report those that reduce its cost.",
        "conformance": "Test a server's conformance to HTTP/1.1.",
        "ui": "Start, watch and browse runs as pages in a browser.",
        "history": "List earlier runs, and show how a target's cost changed over them.",
        "diff": "Compare two runs through the arms that are the same in both.",
        "report": "Rebuild every report of a run from its records.",
        "publish": "Write runs as static pages with their records, to be published.",
        "watch": "Follow a run that another process measures.",
        "help": "Explain a word of the reports, such as floor or inconclusive.",
    },
    "Serve": {
        "migrate": "Print the `jissoku serve` for a command line of another server.",
    },
    "The lab itself": {
        "targets": "List the targets available here, those unavailable, and how to install them.",
        "doctor": "Report what on this machine would disturb a measurement.",
        "self-test": "Test the lab on this machine: equal arms, injected work, repetitions.",
        "calibrate": "Score a load generator against a server of known behaviour.",
    },
}

# Commands that are in a module with others; of any other the module has its name.
MODULES = {
    **dict.fromkeys(("sweep", "run", "bisect"), "measuring"),
    **dict.fromkeys(("profile", "tune"), "explain"),
    **dict.fromkeys(("diff", "publish"), "history"),
    **dict.fromkeys(("report", "watch"), "reports"),
    "targets": "doctor",
}

# The libraries of the extra `lab` of pyproject.toml; the native commands need none of them.
LAB_LIBRARIES = {
    "crossplane",
    "hdrh",
    "jinja2",
    "msgspec",
    "numpy",
    "psutil",
    "rich",
    "scipy",
    "starlette",
}

# Full disk, quota, limit on the size of files, read-only file system.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

# Listed here, and run by `jissoku.cli.main` before this module is imported.
NATIVE_COMMANDS = {
    "Measure": {
        "load": "Send load, and report rate, latency and errors.",
    },
    "Serve": {
        "serve": "Serve a directory or a Python application, or forward to other servers.",
        "check": "Check a configuration file, and explain which route takes a request.",
    },
    "The lab itself": {
        "lab": "`lab serve`: the server with the benchmark contract and injected faults.",
        "floor": "A minimal server and forwarder: the lower bound of cost.",
        "oracle": "A server with known, logged behaviour, for calibration.",
        "sample": "Sample the CPU time of running processes by function.",
        "completions": "Print what bash, zsh or fish needs to complete the command line.",
        "man": "Write the manual pages into a folder.",
    },
}

HEADINGS = ("Measure", "Understand", "Serve", "The lab itself")


def is_of_lab(error: ModuleNotFoundError) -> bool:
    """Whether a library of the extra `lab` is missing."""
    return (error.name or "").partition(".")[0] in LAB_LIBRARIES


def commands_below(heading: str) -> dict[str, str]:
    """Commands and their descriptions, those of the lab first."""
    return LAB_COMMANDS.get(heading, {}) | NATIVE_COMMANDS.get(heading, {})


class CommandGroup(click.Group):
    """A group whose commands are listed below headings."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for heading in HEADINGS for name in commands_below(heading)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module, and returns the command."""
        if not any(cmd_name in commands for commands in LAB_COMMANDS.values()):
            near = difflib.get_close_matches(cmd_name, self.list_commands(ctx), n=3)
            more = f"did you mean {' or '.join(near)}?" if near else "`jissoku --help` lists them"
            raise InputError(f"no such command: {cmd_name!r}; {more}")
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"jissoku.cli.{MODULES.get(cmd_name, name)}")
        command = getattr(module, name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands from the tables without importing them."""
        del ctx
        width = max(map(len, self.list_commands(click.Context(self))))
        for heading in HEADINGS:
            with formatter.section(heading):
                rows = commands_below(heading).items()
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, help="Show version, build profile and commit, and exit.")
@click.pass_context
def jissoku(ctx: click.Context, *, version: bool) -> None:
    """A laboratory for the speed of HTTP servers, with its own server and load generator.

    Exit codes: 0 success, 1 failure, 2 bad input, 3 a stated bound is exceeded,
    4 undecided or invalid, 130 interrupted.
    """
    if version:
        click.echo(version_line())
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _refusal_text(refusal: click.ClickException) -> str:
    text = refusal.format_message()
    if not isinstance(refusal, click.NoSuchOption) or refusal.ctx is None:
        return text
    if refusal.option_name == "--for" and refusal.ctx.info_name == "explain":
        return "--for: explain has no time limit; it observes for about half a minute"
    if not refusal.possibilities:
        return f"{text.rstrip('.')}; see jissoku {refusal.ctx.info_name} --help"
    return text


def run() -> None:
    """Runs the command line and exits."""
    try:
        code = jissoku(standalone_mode=False)
    except click.ClickException as refusal:
        print_message(_refusal_text(refusal))
        sys.exit(ExitCode.BAD_INPUT)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.INTERRUPTED)
    except InputError as error:
        print_message(str(error))
        sys.exit(ExitCode.BAD_INPUT)
    except ModuleNotFoundError as error:
        if not is_of_lab(error):
            raise
        print_message(f"the laboratory needs {error.name}: pip install 'jissoku[lab]'")
        sys.exit(ExitCode.BAD_INPUT)
    except JissokuError as error:
        stderr = error.stderr if isinstance(error, TargetError) else ""
        print_message(f"{error}\n{stderr}" if stderr else str(error))
        sys.exit(ExitCode.FAILED)
    except BrokenPipeError:
        # The reader of a pipe has closed it, as in `jissoku targets | head`.
        sys.stderr.close()
        sys.exit(ExitCode.FAILED)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        print_message(f"{error.filename or 'a file'} cannot be written: {error.strerror}")
        sys.exit(ExitCode.FAILED)
    sys.exit(code if isinstance(code, int) else 0)
