"""From a command that would answer a question to the form that starts it."""

import shlex
from dataclasses import dataclass

from jissoku.model.history_answer import Series
from jissoku.report.boards import Board
from jissoku.report.history_text import no_confirmation
from jissoku.report.suspicions import Suspicion, suspicions

# Options of the commands that `stats.run_difference` makes, and the fields of the form.
FIELDS = {"--path": "path", "-c": "connections", "-R": "rate"}
FLAGS = {"--no-keepalive": ("close", "yes")}

# Buttons that start a suspicion's measurement: of both programs together, or of one more occasion.
RACE, AGAIN = "Race them now", "Measure again"


@dataclass(frozen=True, slots=True)
class Answer:
    """A command, and what a form sends to start it.

    Attributes:
        fields: None if it has an option that forms do not have.
    """

    command: str
    fields: tuple[tuple[str, str], ...] | None


def answering(command: str) -> Answer:
    """The form for a command `jissoku compare ...`."""
    program, compare, *words = shlex.split(command)
    fields: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        if word in FIELDS:
            fields.append((FIELDS[word], next(rest, "")))
        elif word in FLAGS:
            fields.append(FLAGS[word])
        elif word.startswith("-"):
            return Answer(command, None)
        else:
            fields.append(("target", word))
    is_comparison = (program, compare) == ("jissoku", "compare")
    return Answer(command, tuple(fields) if is_comparison else None)


def fields_of_board(board: Board) -> list[tuple[str, str]]:
    """Fields of the form that measures a board's targets together."""
    workload = answering(board.series[0].race).fields or ()
    targets = dict.fromkeys(one.target for one in board.series)
    return [
        *(("target", name) for name in targets),
        *((name, value) for name, value in workload if name != "target"),
    ]


def answers_of_series(series: Series) -> list[tuple[str, Answer]]:
    """What to measure about a series: each suspicion, or the target once more. With its label."""
    found = [answer_of_suspicion(one) for one in suspicions([series])]
    if not found:
        return [(AGAIN, answering(series.race))]
    by_command = {answer.command: (label, answer) for label, _, answer in found}
    return list(by_command.values())


def answer_of_suspicion(one: Suspicion) -> tuple[str, str, Answer]:
    """The label of a suspicion's button, why both cannot be measured together, and the command."""
    if one.change.confirmation is not None:
        return RACE, "", answering(one.change.confirmation.command)
    return AGAIN, no_confirmation(one.change), answering(one.series.race)
