"""Requests as forms: a button that starts one, or the form of comparisons filled in with one."""

from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from jissoku.model.history import Series
from jissoku.model.updated import updated
from jissoku.report.history import Board, Suspicion, no_confirmation, suspicions
from jissoku.request import ComparisonRequest, command_line, to_argv
from jissoku.request.options import is_complete, local_texts

# The field with the words of a request; it is sent once for each word.
WORD = "word"

# Fields that the form of comparisons has itself; others of a request are kept beside them.
FORM_FIELDS = ("arms", "path", "connections", "rate", "blocks", "keepalive", "quick")

# Buttons that start a suspicion's measurement: of both programs together, or of one more occasion.
RACE, AGAIN = "Race them now", "Measure again"


@dataclass(frozen=True, slots=True)
class RerunForm:
    """A request that a page offers to start."""

    request: msgspec.Struct

    @property
    def command(self) -> str:
        """Its command line."""
        return command_line(self.request)

    @property
    def words(self) -> tuple[str, ...]:
        """Its command line, as a field of a form each."""
        return to_argv(self.request)

    @property
    def query(self) -> str:
        """The same in the address of a page."""
        return urlencode([(WORD, word) for word in self.words])

    @property
    def is_local(self) -> bool:
        """Whether it has commands, files or URLs, which pages accept only if allowed to."""
        return any(local_texts(self.request))

    @property
    def is_complete(self) -> bool:
        """Whether its record left nothing out."""
        return is_complete(self.request)


def form_values(request: ComparisonRequest) -> dict[str, list[str]]:
    """The fields of the form of comparisons that ask for a request, with its other options."""
    given = {
        "target": list(request.arms),
        "path": [request.path],
        "connections": [str(request.connections)],
        "rate": [] if request.rate is None else [str(request.rate)],
        "blocks": [] if request.blocks is None else [str(request.blocks)],
        "close": [] if request.keepalive else ["yes"],
        "mode": ["quick" if request.quick else "standard"],
        WORD: list(to_argv(other_options(request))),
    }
    return {name: values for name, values in given.items() if values}


def other_options(request: ComparisonRequest) -> ComparisonRequest:
    """The request with only the options that the form has no fields for."""
    default = ComparisonRequest()
    return updated(request, **{name: getattr(default, name) for name in FORM_FIELDS})


def request_of_board(board: Board) -> ComparisonRequest:
    """Measures a board's targets together."""
    targets = tuple(dict.fromkeys(one.target for one in board.series))
    return updated(board.series[0].race, arms=targets, cmd=(), url=())


def answers_of_series(series: Series) -> list[tuple[str, RerunForm]]:
    """What to measure about a series: each suspicion, or the target once more. With its label."""
    found = [answer_of_suspicion(one) for one in suspicions([series])]
    if not found:
        return [(AGAIN, RerunForm(series.race))]
    return list({answer.request: (label, answer) for label, _, answer in found}.values())


def answer_of_suspicion(one: Suspicion) -> tuple[str, str, RerunForm]:
    """The label of a suspicion's button, why both cannot be measured together, and the request."""
    if one.change.confirmation is not None:
        return RACE, "", RerunForm(one.change.confirmation.request)
    return AGAIN, no_confirmation(one.change), RerunForm(one.series.race)
