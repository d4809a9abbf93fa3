"""The table of verbs, and what becomes of errors: one sentence and an exit code."""

import sys

import click

from jissoku.cli.compare import compare
from jissoku.cli.doctor import doctor
from jissoku.cli.exits import BAD_INPUT, FAILED, INTERRUPTED
from jissoku.cli.report import report
from jissoku.cli.targets import targets
from jissoku.cli.version import version_line
from jissoku.errors import InputError, JissokuError

NATIVE_HELP = {
    "serve": "The server, alone: a folder, or a fixed or delayed answer.",
    "load": "The load generator, alone.",
    "floor": "The least server and the least client.",
}


class Verbs(click.Group):
    """A group whose verbs are listed in the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All verbs, in the order in which they were added."""
        return list(self.commands)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version_line(), message="%(version)s")
def jissoku() -> None:
    """A speed laboratory for HTTP servers, and the server that came out of it.

    Exit codes: 0 fine, 1 the work failed, 2 bad input, 4 undecided or invalid, 130 interrupted.
    """


for verb in (compare, report, targets, doctor):
    jissoku.add_command(verb)
for name, text in NATIVE_HELP.items():
    # Listed here, run by `jissoku.cli.main` before this module is imported.
    jissoku.add_command(click.Command(name, short_help=text, help=text))


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
