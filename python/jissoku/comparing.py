"""Servers compared from code: `jissoku.compare`.

The comparison is that of `jissoku compare`, with the same request, measurement and decision; see
docs/api.md. It needs the laboratory's libraries.
"""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from jissoku.cli.frame import version_line
from jissoku.errors import InputError, RecordError
from jissoku.fleet.connecting import host_of
from jissoku.measure.asked_comparison import check_asked, measured_comparison
from jissoku.measure.progress import ProgressListener
from jissoku.measure.reports import write_reports
from jissoku.model import Comparison, Summary
from jissoku.model.summary import BoundResult, Metric
from jissoku.records.run_folder import check_new
from jissoku.request import ComparisonRequest, from_argv
from jissoku.serving import Option, flag
from jissoku.system.measurement_lock import measurement_lock
from jissoku.targets.supervisor import supervisor

# A target, behind its name if it has one.
TARGET = re.compile(r"(?:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)=)?(?P<target>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The verdicts of a run.

    Attributes:
        folder: The records and reports of the run: `report.html`, `report.json`, `report.txt`.
        pairs: Every pair at every load by CPU time per request: `arm`, `against` and `load`;
            `ratio` (`value`, `low`, `high`; None without a value); whether a difference is
            `proven`; `verdict` and `sentence`; `condition`, how quiet the machine was.
        bounds: What `fail_if` has led to, in its order: each has a `status`, and a `reason` if it
            is undecided.
        summary: Everything in the report, also latencies and capacities.
    """

    folder: Path
    pairs: tuple[Comparison, ...]
    bounds: tuple[BoundResult, ...]
    summary: Summary = field(repr=False)


class _Lines(ProgressListener):
    def __init__(self, print_line: Callable[[str], object]) -> None:
        self._print_line = print_line

    def note(self, text: str) -> None:
        self._print_line(text)

    def verdict(self, text: str) -> None:
        self._print_line(text)


def compare(
    *targets: str,
    time: float | str | None = None,
    blocks: int | None = None,
    folder: Path | None = None,
    progress: Callable[[str], object] | None = None,
    **options: Option,
) -> ComparisonResult:
    """Compares servers: same workload, randomised blocks, verdicts with intervals.

    Call it in the main thread. Nothing is printed.

    Args:
        targets: Each is a name that `jissoku targets` lists; a command with `{port}` where its port
            belongs; or the URL of a server that runs. `NAME=` before it names it; a command has
            else the name of its program. Listed targets come first, then commands, then URLs; the
            first is the baseline.
        time: When to end at the latest, in seconds or as text such as `"90s"`.
        blocks: A fixed number of blocks.
        folder: A new folder for records and reports; a new one below `runs` by default.
        progress: Called with what a log of the command would have, line by line.
        options: Further flags of `jissoku compare` with underscores, such as `fail_if=["cost(b) >
            1.02 x cost(a)"]`, `rate=5000` or `standard=True`.

    Raises:
        InputError: A target or an option is invalid, or another measurement runs on this machine.
        TargetError: A target did not do its part before the first trial.
        RecordError: The results cannot be written, or the host of `server_host` was lost.
        KeyboardInterrupt: After Ctrl-C. `folder` has the report of what was measured.
    """
    if threading.current_thread() is not threading.main_thread():
        raise InputError(
            "jissoku.compare ends its servers after a signal: call it in the main thread"
        )
    given = {"for": time, "blocks": blocks, **options}
    words = [word for name, value in given.items() for word in flag(name, value)]
    request = from_argv(["compare", *words, *_words(targets)])
    assert isinstance(request, ComparisonRequest)
    listener = ProgressListener() if progress is None else _Lines(progress)
    _, ref = check_asked(request, folder)
    if folder is None:
        check_new(Path("runs/new"))
    with measurement_lock("compare"):
        supervisor()
        with (
            host_of(request, version_line()) as host,
            measured_comparison(request, ref, folder, version_line(), listener, host) as done,
        ):
            pass
    folder = done.config.folder
    summary, _, unwritten = write_reports(folder)
    if problem := done.lost or unwritten:
        raise RecordError(problem)
    if not done.is_finished:
        raise KeyboardInterrupt(f"the run in {folder} was interrupted")
    assert isinstance(summary, Summary)
    return ComparisonResult(folder, summary.by(Metric.COST), done.bounds, summary)


def _words(targets: tuple[str, ...]) -> Iterator[str]:
    """The targets as words of the command line."""
    arms = []
    for text in targets:
        found = TARGET.fullmatch(text)
        if found is None:
            raise InputError("a target is a name, a command or a URL, and no empty text")
        name, target = found["name"], found["target"]
        if target.startswith(("http:", "https:", "unix:")):
            yield f"--url={name or 'server'}={target}"
        elif " " in target:
            yield f"--cmd={name or PurePath(target.split()[0]).name}={target}"
        else:
            arms.append(text)
    yield from ("--", *arms)
