"""What is asked: one frozen value per question.

It is made by commands, pages, the history and files. The header of a run stores it, so that the run
can be measured again as it was asked for. No I/O.
"""

from collections.abc import Sequence
from typing import get_args

import click

from jissoku.errors import InputError
from jissoku.request.kinds import (
    BisectionRequest as BisectionRequest,
    ComparisonRequest as ComparisonRequest,
    ExperimentRequest as ExperimentRequest,
    ExplanationRequest as ExplanationRequest,
    ProfileRequest as ProfileRequest,
    SweepRequest as SweepRequest,
    TuningRequest as TuningRequest,
)
from jissoku.request.options import asking, command_line as command_line, to_argv as to_argv

AnyRequest = (
    ComparisonRequest
    | SweepRequest
    | ProfileRequest
    | TuningRequest
    | ExplanationRequest
    | ExperimentRequest
    | BisectionRequest
)

KINDS: dict[str, type[AnyRequest]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(AnyRequest)
}


def from_argv(words: Sequence[str]) -> AnyRequest:
    """The request of a command line without `jissoku`; InputError if it is none."""
    verb, *given = words
    if verb not in KINDS:
        raise InputError(f"{verb!r} is not one of {', '.join(KINDS)}")
    kind = KINDS[verb]
    command = click.command(verb, add_help_option=False)(asking(kind)(lambda **_: None))
    try:
        return kind(**command.make_context(verb, given).params)
    except click.ClickException as refusal:
        raise InputError(refusal.format_message()) from refusal
