"""`jissoku history --confirm`: runs the command that would prove each suspicion."""

from collections.abc import Sequence

import click

from jissoku.cli import exit_codes
from jissoku.cli.compare import compare
from jissoku.errors import JissokuError
from jissoku.measure.ci import judge
from jissoku.measure.selection import folder_for
from jissoku.model.history import Confirmation
from jissoku.model.summary import BoundStatus
from jissoku.report.bounds import bound_sentence
from jissoku.report.history import Suspicion, suspicion_text
from jissoku.request import to_argv

ANSWERS = {
    BoundStatus.EXCEEDED: "Confirmed",
    BoundStatus.KEPT: "Refuted",
    BoundStatus.UNDECIDED: "Not confirmed",
}


def confirm(found: Sequence[Suspicion]) -> int:
    """Runs each command once: several suspicions, as of one change at three loads, may share it.

    Returns:
        The exit code: 3 if one is confirmed, 4 if one stays open, 0 if none does.
    """
    requests = {one.change.confirmation.request: one for one in found if one.change.confirmation}
    open_ones = [one for one in found if one.change.confirmation is None]
    for one in open_ones:
        click.echo(f"{suspicion_text(one)}\n")
    answers = [BoundStatus.UNDECIDED] * len(open_ones)
    for number, one in enumerate(requests.values(), 1):
        click.echo(suspicion_text(one))
        status = _measured(one, number)
        if status is None:
            return exit_codes.INTERRUPTED
        answers.append(status)
    if BoundStatus.EXCEEDED in answers:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if BoundStatus.UNDECIDED in answers else exit_codes.OK


def _measured(one: Suspicion, number: int) -> BoundStatus | None:
    """The result of a run of both programs; None if it was interrupted."""
    asked = one.change.confirmation
    assert asked is not None, "only suspicions with a command are measured"
    folder = folder_for("confirm", str(number), one.series.arm)
    words = ["--out", str(folder), *to_argv(asked.request)[1:]]
    try:
        code = compare.main(words, "jissoku compare", standalone_mode=False)
        if code == exit_codes.INTERRUPTED:
            return None
        (found,) = judge(folder, [_bound(one, asked)])
    except (JissokuError, click.ClickException) as error:
        click.echo(f"Not measured: {error}\n")
        return BoundStatus.UNDECIDED
    click.echo(f"{ANSWERS[found.status]}: {bound_sentence(found)}. Records: {folder}\n")
    return found.status


def _bound(one: Suspicion, asked: Confirmation) -> str:
    """That the later program differs in the suspected direction."""
    before, after = asked.arms
    relation = ">" if one.change.change.mean > 0 else "<"
    return f"cost({after}) {relation} cost({before})"
