"""All cases against one target: starts it, runs each case on a new connection, and evaluates it.

If the target exits during a case, the case has failed, and the target is restarted for the next.
"""

import http.client
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jissoku.conformance.case import Case, SplitMode, split_points
from jissoku.conformance.exchange import run_case
from jissoku.conformance.judge import CaseVerdict, Judgement, judge, worst
from jissoku.errors import TargetError
from jissoku.model import Workload
from jissoku.model.wording import times
from jissoku.system.cores import available_cores
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets import response
from jissoku.targets.launch import Launcher, require_reachable
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

# Limit of restarts of a target that exits repeatedly.
RESTARTS_MAX = 5

# An exiting process closes its connections first, and may have to wait for a core to end.
EXIT_LIMIT_S = 0.5

TOKEN = b"what was understood"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceConfig:
    """The target, the cases, and how their bytes are split."""

    prepared: PreparedTarget
    cases: Sequence[Case]
    sending: SplitMode = SplitMode.WHOLE
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    case: Case
    judgement: Judgement


def run_cases(examination: ConformanceConfig, results: list[CaseResult]) -> bool:
    """Runs the cases one after the other, and appends the result of each to `results`.

    Returns:
        Whether all cases ran; False if it was interrupted and the target stopped.

    Raises:
        TargetError: The target cannot be started, or its processes cannot be ended.
    """
    with Interruption() as interruption:
        try:
            for result in _run_cases(examination, interruption):
                results.append(result)  # noqa: PERF402 - keeps finished results after an interruption
        except Interrupted:
            return False
    return True


def _run_cases(examination: ConformanceConfig, interruption: Interruption) -> Iterator[CaseResult]:
    rng = random.Random(examination.seed)
    left, deaths = list(examination.cases), 0
    while left and deaths < RESTARTS_MAX:
        with _started(examination.prepared, rng, interruption) as running:
            echoes = _echoes(running)
            while left:
                interruption.check()
                case = left.pop(0)
                judgement = _run_case(running, case, examination.sending, echoes=echoes)
                is_ill = judgement.verdict in {CaseVerdict.MUST_VIOLATED, CaseVerdict.UNDECIDED}
                if not running.is_alive_after(EXIT_LIMIT_S if is_ill else 0.0):
                    death = f"{running.exit_description()} over it"
                    judgement = Judgement(verdict=CaseVerdict.MUST_VIOLATED, reason=death)
                yield CaseResult(case=case, judgement=judgement)
                if not running.is_alive():
                    deaths += 1
                    break
    for case in left:
        gone = Judgement(
            verdict=CaseVerdict.UNDECIDED, reason=f"had died {times(deaths)} before it"
        )
        yield CaseResult(case=case, judgement=gone)


@contextmanager
def _started(
    prepared: PreparedTarget, rng: random.Random, interruption: Interruption
) -> Iterator[RunningTarget]:
    """Starts a target and waits for an answer; an external server may give any answer."""
    launcher = Launcher(
        cores=available_cores(), rng=rng, workers=1, give_up=lambda: interruption.asked
    )
    if prepared.address is not None:
        with launcher.start(prepared, Workload()) as running:
            require_reachable(running.name, running.address)
            yield running
        return
    try:
        with launcher.ready(prepared, Workload()) as running:
            yield running
    except TargetError:
        interruption.check()
        raise


def _echoes(running: RunningTarget) -> bool:
    """Whether the target echoes the body of a POST, so that its interpretation can be observed."""
    try:
        found = response.send_request(running.address, Workload(method="POST", body=TOKEN))
    except (OSError, http.client.HTTPException):
        return False
    return found.status == 200 and found.body == TOKEN


def _run_case(running: RunningTarget, case: Case, sending: SplitMode, *, echoes: bool) -> Judgement:
    judgements = []
    for places in split_points(len(case.send), sending, case.send.find(b"\r")):
        try:
            seen = run_case(case, running.address.connect, places)
        except OSError as error:
            reason = f"takes no connection: {(error.strerror or str(error)).lower()}"
            judgements.append(Judgement(verdict=CaseVerdict.UNDECIDED, reason=reason))
            break
        found = judge(case, seen, echoes=echoes)
        if places:
            how = f"cut after {places[0]} bytes" if len(places) == 1 else "sent byte by byte"
            reason = f"{found.reason} ({how})" if found.reason else ""
            found = Judgement(verdict=found.verdict, reason=reason)
        judgements.append(found)
    return worst(judgements)
