"""All cases against one target: target up, cases held over fresh connections, each judged.

A target that dies over a case has failed it, and is started again for the next one.
"""

import http.client
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jissoku.conformance import Case, Judgement, Result, Sending, Verdict, cuts, hold, judge, worst
from jissoku.errors import TargetError
from jissoku.interruption import Interrupted, Interruption
from jissoku.model import Workload
from jissoku.targets import answer, process, ready
from jissoku.targets.address import free_port
from jissoku.targets.prepare import Prepared
from jissoku.targets.process import Placement, Running

# A target that dies again and again is not started for ever.
DEATHS_MAX = 5

# A dying process closes its connections first, and may have to wait for a core to end.
DEATH_LIMIT_S = 0.5

TOKEN = b"what was understood"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Who is asked what, and how the bytes are cut."""

    prepared: Prepared
    cases: Sequence[Case]
    sending: Sending = Sending.WHOLE
    seed: int = 0


def examine(examination: Examination, results: list[Result]) -> bool:
    """Holds the cases one after the other, and adds what became of each to `results`.

    Returns:
        Whether all were held; False if somebody interrupted it, and the target was ended.

    Raises:
        TargetError: The target cannot be started, or its processes cannot be ended.
    """
    with Interruption() as interruption:
        try:
            for result in _examine(examination, interruption):
                results.append(result)  # noqa: PERF402 - what was finished outlives an interruption
        except Interrupted:
            return False
    return True


def _examine(examination: Examination, interruption: Interruption) -> Iterator[Result]:
    rng = random.Random(examination.seed)
    left, deaths = list(examination.cases), 0
    while left and deaths < DEATHS_MAX:
        with _start(examination.prepared, rng) as running:
            _await(running, interruption)
            echoes = _echoes(running)
            while left:
                interruption.check()
                case = left.pop(0)
                judgement = _try(running, case, examination.sending, echoes=echoes)
                is_ill = judgement.verdict in {Verdict.BROKEN, Verdict.UNDECIDED}
                if not running.lives_on(DEATH_LIMIT_S if is_ill else 0.0):
                    death = f"{running.death()} over it"
                    judgement = Judgement(verdict=Verdict.BROKEN, reason=death)
                yield Result(case=case, judgement=judgement)
                if not running.alive():
                    deaths += 1
                    break
    for case in left:
        gone = Judgement(verdict=Verdict.UNDECIDED, reason=f"had died {deaths} times before it")
        yield Result(case=case, judgement=gone)


def _start(prepared: Prepared, rng: random.Random) -> Running:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    port = free_port(rng) if prepared.listen.tcp else None
    placement = Placement(port=port, cores=cores, workers=1, seed=rng.getrandbits(31))
    return process.start(prepared, placement)


def _await(running: Running, interruption: Interruption) -> None:
    """Waits until a target that we started answers; one that ran already may answer anything."""
    if running.pid is not None:
        try:
            ready.wait(running, Workload(), give_up=lambda: interruption.asked)
        except TargetError:
            interruption.check()
            raise
        return
    try:
        running.address.connect(answer.ASK_LIMIT_S).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TargetError(
            f"{running.name} cannot be reached at {running.address.url()}: {reason}; start it first"
        ) from error


def _echoes(running: Running) -> bool:
    """Whether the target answers a POST with its body, so that we see what it understood."""
    try:
        found = answer.ask(running.address, Workload(method="POST", body=TOKEN))
    except (OSError, http.client.HTTPException):
        return False
    return found.status == 200 and found.body == TOKEN


def _try(running: Running, case: Case, sending: Sending, *, echoes: bool) -> Judgement:
    judgements = []
    for places in cuts(len(case.send), sending, case.send.find(b"\r")):
        try:
            seen = hold(case, running.address.connect, places)
        except OSError as error:
            reason = f"takes no connection: {(error.strerror or str(error)).lower()}"
            judgements.append(Judgement(verdict=Verdict.UNDECIDED, reason=reason))
            break
        found = judge(case, seen, echoes=echoes)
        if places:
            how = f"cut after {places[0]} bytes" if len(places) == 1 else "sent byte by byte"
            reason = f"{found.reason} ({how})" if found.reason else ""
            found = Judgement(verdict=found.verdict, reason=reason)
        judgements.append(found)
    return worst(judgements)
