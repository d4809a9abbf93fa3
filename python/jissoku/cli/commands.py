"""The commands, and how errors are reported: one sentence and an exit code."""

import difflib
import errno
import importlib
import sys

import click

from jissoku.cli.frame import ExitCode, print_message, version_line
from jissoku.cli.help import COMMANDS
from jissoku.errors import InputError, JissokuError, TargetError

LAB_COMMANDS: dict[str, dict[str, str]] = COMMANDS["lab"]
LAB_LIBRARIES = set(COMMANDS["libraries"])
HEADINGS = tuple(LAB_COMMANDS)

# Full disk, quota, limit on the size of files, read-only file system.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def is_of_lab(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] in LAB_LIBRARIES


def commands_below(heading: str) -> dict[str, str]:
    """Commands and their descriptions, those of the lab first."""
    return {**LAB_COMMANDS[heading], **COMMANDS["native"].get(heading, {})}


class CommandGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for heading in HEADINGS for name in commands_below(heading)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not any(cmd_name in commands for commands in LAB_COMMANDS.values()):
            near = difflib.get_close_matches(cmd_name, self.list_commands(ctx), n=3)
            more = f"did you mean {' or '.join(near)}?" if near else "`jissoku --help` lists them"
            raise InputError(f"no such command: {cmd_name!r}; {more}")
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"jissoku.cli.{COMMANDS['modules'].get(cmd_name, name)}")
        command = getattr(module, name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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
    if isinstance(refusal, click.NoSuchOption) and refusal.ctx and not refusal.possibilities:
        return f"{text.rstrip('.')}; see jissoku {refusal.ctx.info_name} --help"
    return text


def run() -> None:
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
