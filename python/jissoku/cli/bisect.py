"""`jissoku bisect`: the commit that made a server cost more."""

from pathlib import Path
from typing import Any

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.cli.progress_display import ProgressDisplay
from jissoku.design.search import Bisection, bisect as halve
from jissoku.errors import InputError
from jissoku.inference.bounds import check_arms
from jissoku.measure.ci import CANDIDATE, GOOD, CommitQuestion, compare_commits
from jissoku.measure.selection import folder_for, seed, workload
from jissoku.model.summary import BoundStatus
from jissoku.model.wording import plural
from jissoku.records.run_folder import RUN_FILE, check_new
from jissoku.report.bounds import bound_sentence
from jissoku.request import BisectionRequest, asking
from jissoku.system import cores
from jissoku.system.interruption import Interrupted
from jissoku.targets.command import build_words, commits_between, read_command, resolve, subject


@click.command()
@asking(BisectionRequest)
@shared_options.out
@shared_options.quiet
def bisect(*, out: Path | None, quiet: bool, **given: Any) -> int:
    """Find the commit after GOOD, up to BAD, from which on the server uses more CPU.

    Each step builds one commit in a worktree and measures it together with GOOD. An undecided step
    is measured again with more blocks; if it is still undecided, the remaining range is printed.

    Exit codes: 0 found, 1 a build or the server failed, 2 bad input, 4 undecided, or BAD is not
    proven to cost more, 130 interrupted.
    """
    request = BisectionRequest(**given)
    check_arms((request.fail_if,), {GOOD, CANDIDATE})
    read_command(f"{GOOD}={request.cmd}")
    build_words(request.build)
    for run in out.glob(f"*/{RUN_FILE}") if out else ():
        check_new(run.parent)
    good = resolve(request.good)
    commits = commits_between(good, resolve(request.bad))
    if not commits:
        raise InputError(f"there is no commit between {request.good} and {request.bad}")
    lock_machine()
    question = CommitQuestion(
        good=good,
        command=request.cmd,
        build=request.build,
        bound=request.fail_if,
        workload=workload(request),
        seed=seed(request.seed),
        cores=cores.partition_cores(cores.available_cores()),
        folder=out or folder_for("bisect"),
        request=request,
        version=version_line(),
    )
    try:
        with ProgressDisplay(quiet=quiet) as show:
            found = halve(commits, lambda commit, attempt: _judge(question, commit, attempt, show))
    except Interrupted:
        return exit_codes.INTERRUPTED
    return _print(found, commits, question)


def _judge(
    question: CommitQuestion, commit: str, attempt: int, show: ProgressDisplay
) -> BoundStatus:
    result = compare_commits(question, commit, attempt, show)
    show.note(f"{commit[:12]} {subject(commit)}: {bound_sentence(result)}.")
    return result.status


def _print(found: Bisection, commits: tuple[str, ...], question: CommitQuestion) -> int:
    records = f"{found.steps} {plural(found.steps, 'measurement')}; records: {question.folder}"
    if found.undecided is not None:
        stuck = commits[found.undecided]
        after = commits[found.good] if found.good >= 0 else question.good
        span = f"The first one is after {after[:12]}"
        if found.bad is not None:
            span += f", and {commits[found.bad][:12]} at the latest"
        click.echo(f"Undecided at {stuck[:12]} {subject(stuck)}. {span}. {records}")
        return exit_codes.UNDECIDED
    if found.bad is None:
        click.echo(f"{commits[-1][:12]} does not exceed the bound. {records}")
        return exit_codes.UNDECIDED
    first = commits[found.bad]
    click.echo(f"The first one is {first[:12]} {subject(first)}. {records}")
    return exit_codes.OK
