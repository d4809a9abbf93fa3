"""The table of verbs, and what becomes of errors: one sentence and an exit code."""

import importlib
import sys

import click

from jissoku.cli.exits import BAD_INPUT, FAILED, INTERRUPTED
from jissoku.cli.version import version_line
from jissoku.errors import InputError, JissokuError

# A verb's module is imported when the verb is used: the statistics alone take a second.
LAB = {
    "compare": "Race targets: same workload, randomised blocks, verdicts with intervals.",
    "explain": "Find out why a target is as fast as it is, with evidence.",
    "run": "Run an experiment, and answer its claims.",
    "sweep": "Sweep connections, workers or rate: how a target scales, with intervals.",
    "conformance": "Hold a server to HTTP/1.1, clause by clause.",
    "tune": "Try a target's knobs, and prove those that pay.",
    "report": "Rebuild every report of a run from its records.",
    "calibrate": "Score a load generator against known truth.",
    "targets": "List what can be raced here, what is missing, and how to get it.",
    "doctor": "Tell what on this machine would spoil a measurement.",
}

# Listed here, and run by `jissoku.cli.main` before this module is imported.
NATIVE = {
    "serve": "Serve a folder, or a fixed or delayed answer.",
    "load": "Send load, and tell the truth about the answers.",
    "floor": "The least server and the least client.",
    "oracle": "A server whose every act is known beforehand and written down.",
    "wrk": "Send load with wrk's flags, and report in its shape.",
    "wrk2": "The same with those of wrk2, at a rate.",
    "ab": "The same with those of ab.",
    "hey": "The same with those of hey.",
    "oha": "The same with those of oha.",
}


class Verbs(click.Group):
    """A group whose verbs are listed in the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, the lab's first."""
        del ctx
        return [*LAB, *NATIVE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the verb's module, and returns the verb."""
        del ctx
        if cmd_name not in LAB:
            return None
        command = getattr(importlib.import_module(f"jissoku.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the verbs from the table, importing none of them."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list((LAB | NATIVE).items()))


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(version_line(), message="%(version)s")
@click.pass_context
def jissoku(ctx: click.Context) -> None:
    """A speed laboratory for HTTP servers, and the server that came out of it.

    Exit codes: 0 fine, 1 the work failed, 2 bad input, 4 undecided or invalid, 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run() -> None:
    """Runs the command line and exits."""
    try:
        code = jissoku(standalone_mode=False)
    except click.ClickException as refusal:
        _say(refusal.format_message())
        sys.exit(BAD_INPUT)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except InputError as error:
        _say(str(error))
        sys.exit(BAD_INPUT)
    except JissokuError as error:
        _say(str(error))
        sys.exit(FAILED)
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `jissoku targets | head`.
        sys.stderr.close()
        sys.exit(FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _say(sentence: str) -> None:
    click.echo(f"jissoku: {sentence}", err=True)
