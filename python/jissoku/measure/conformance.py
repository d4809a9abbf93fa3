"""All cases against one target: starts it, runs each case on a new connection, and evaluates it.

A target that exits during a case has failed it, and is restarted for the next. A reverse proxy is
also restarted for another set of servers, so that its state about a failed server cannot affect
the next case.
"""

import http.client
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from jissoku.conformance.applications import (
    BUILTIN_CASES,
    expanded,
    judge_case,
    judge_websocket_case,
    read_cases,
)
from jissoku.conformance.case import Case, GatewayCase, ServerKind, SplitMode, split_points
from jissoku.conformance.exchange import run_case, run_gateway_case
from jissoku.conformance.judge import (
    CaseVerdict,
    GatewayJudgement,
    GatewayVerdict,
    Judgement,
    judge,
    judge_gateway,
    worst,
    worst_of,
)
from jissoku.conformance.upstream import Upstream
from jissoku.errors import InputError, TargetError
from jissoku.model import Transport, Workload
from jissoku.model.recipe import StartCommand
from jissoku.model.wording import times
from jissoku.system.cores import available_cores
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets import response
from jissoku.targets.launch import Launcher, require_reachable, wait_for_listener
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


# The applications of recipes, and those of the cases.
CASES_MODULES = {"wsgi_app": "wsgi_cases", "asgi_app": "asgi_cases"}

# Cases of the application of each interface.
CASES_FILES = {"wsgi_app": ("wsgi.toml",), "asgi_app": ("asgi.toml", "websocket.toml")}

# Words of recipes that switch off what the cases need: the lifespan, by Granian's interface without
# it or an option of others, and WebSockets.
WITHOUT_LIFESPAN = {"asginl": "asgi", "off": "on"}
WITHOUT_WEBSOCKETS = "--no-ws"

# A server that exits again and again is not started for ever.
APP_RESTARTS_MAX = 20


@dataclass(frozen=True, slots=True)
class AppCaseResult:
    """The result of one case.

    Attributes:
        name: Of the case.
        clause: Of the specification.
        wrong: The deviation of the answers; empty if there is none.
        group: The name without the value that distinguishes like cases.
    """

    name: str
    clause: str
    wrong: str
    group: str


def run_app_cases(prepared: PreparedTarget) -> Iterator[AppCaseResult]:
    """Runs every case; the server is restarted if it exits.

    Raises:
        InputError: The recipe serves neither of our applications.
        TargetError: The server cannot be started.
    """
    served, files = _with_cases(prepared)
    left = [case for name in files for case in expanded(read_cases(BUILTIN_CASES / name))]
    launcher = Launcher(cores=available_cores(), rng=random.Random(0), workers=1)
    workload = Workload(headers=(("Case", "hello"),))
    for _ in range(APP_RESTARTS_MAX):
        if not left:
            return
        with launcher.ready(served, workload) as running:
            while left and running.is_alive():
                case = left.pop(0)
                # Those of WebSockets send a list of frames.
                is_text = isinstance(case["send"], str)
                judge = judge_case if is_text else judge_websocket_case
                wrong = judge(case, running.address)
                if wrong and not running.is_alive_after(EXIT_LIMIT_S):
                    wrong = f"{running.exit_description()} over it"
                yield _app_result(case, wrong)
    for case in left:
        yield _app_result(case, f"not run: the server had exited {APP_RESTARTS_MAX} times")


def _app_result(case: dict[str, Any], wrong: str) -> AppCaseResult:
    name = case["name"]
    return AppCaseResult(
        name=name, clause=case["clause"], wrong=wrong, group=case.get("group", name)
    )


def _with_cases(prepared: PreparedTarget) -> tuple[PreparedTarget, tuple[str, ...]]:
    """The target with the application of the cases instead of the contract's, and their files."""
    start = prepared.start
    if start is None:
        raise InputError("--apps needs a recipe: its server is started with another application")
    words = " ".join(start.command)
    native = start.environment.get("APP_MODULE", "wsgi_app") if "wsgi_native.py" in words else None
    for contract, cases in CASES_MODULES.items():
        if f"{contract}:" not in words and contract != native:
            continue
        command = [word.replace(contract, cases) for word in start.command]
        if contract == "asgi_app":
            command = list(_with_all_of_asgi(command))
        environment = {**start.environment, "APP_MODULE": cases}
        started = StartCommand(command=tuple(command), environment=environment)
        return replace(prepared, start=started), CASES_FILES[contract]
    modules = " nor ".join(f"{contract}.py" for contract in CASES_MODULES)
    raise InputError(f"{prepared.name} serves neither {modules}, see its recipe")


def _with_all_of_asgi(command: list[str]) -> Iterator[str]:
    """The arguments of an ASGI server, with its lifespan and its WebSockets enabled."""
    before = ""
    for word in command:
        if word == WITHOUT_WEBSOCKETS:
            continue
        is_choice = before.endswith("-lifespan") or before == "--interface"
        yield WITHOUT_LIFESPAN.get(word, word) if is_choice else word
        before = word


ALONE = (ServerKind.SCRIPTED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The proxy, the cases, and how they are sent.

    Attributes:
        transports: The transports of the servers behind it, one after the other.
        splitting: How client and servers split the bytes they send.
    """

    prepared: PreparedTarget
    cases: Sequence[GatewayCase]
    transports: tuple[Transport, ...] = (Transport.TCP,)
    splitting: SplitMode = SplitMode.WHOLE
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayResult:
    case: GatewayCase
    transport: Transport
    judgement: GatewayJudgement


def run_gateway_cases(config: GatewayConfig, results: list[GatewayResult]) -> bool:
    """Runs the cases one after the other, and appends the result of each to `results`.

    Returns:
        Whether all cases ran; False if it was interrupted.

    Raises:
        TargetError: The proxy cannot be started.
    """
    rng = random.Random(config.seed)
    with Interruption() as interruption:
        try:
            for transport in config.transports:
                for result in _run_all(config, transport, rng, interruption):
                    results.append(result)  # noqa: PERF402 - kept after an interruption
        except Interrupted:
            return False
    return True


def _run_all(
    config: GatewayConfig,
    transport: Transport,
    rng: random.Random,
    interruption: Interruption,
) -> Iterator[GatewayResult]:
    yield from _run_shared(config, transport, rng, interruption)
    for case in config.cases:
        if case.servers == ALONE:
            continue
        interruption.check()
        if not _takes(config.prepared, len(case.servers)):
            unable = GatewayJudgement(
                verdict=GatewayVerdict.UNDECIDED, reason="its recipe forwards to one server only"
            )
            yield GatewayResult(case=case, transport=transport, judgement=unable)
            continue
        started = _started_gateway(config.prepared, case.servers, transport, rng, interruption)
        with started as (running, upstream):
            yield _run_one(config, case, transport, running, upstream)


def _run_shared(
    config: GatewayConfig,
    transport: Transport,
    rng: random.Random,
    interruption: Interruption,
) -> Iterator[GatewayResult]:
    """The cases with one scripted server, on one start of the proxy until it exits."""
    shared = [case for case in config.cases if case.servers == ALONE]
    deaths = 0
    while shared and deaths < RESTARTS_MAX:
        with _started_gateway(config.prepared, ALONE, transport, rng, interruption) as (
            running,
            upstream,
        ):
            while shared and running.is_alive():
                yield _run_one(config, shared.pop(0), transport, running, upstream)
                interruption.check()
        deaths += 1
    for case in shared:
        gone = GatewayJudgement(
            verdict=GatewayVerdict.UNDECIDED, reason=f"had died {times(deaths)} before it"
        )
        yield GatewayResult(case=case, transport=transport, judgement=gone)


def _takes(prepared: PreparedTarget, servers: int) -> bool:
    forward = prepared.forward
    return forward is None or forward.servers_max is None or servers <= forward.servers_max


@contextmanager
def _started_gateway(
    prepared: PreparedTarget,
    servers: Sequence[ServerKind],
    transport: Transport,
    rng: random.Random,
    interruption: Interruption,
) -> Iterator[tuple[RunningTarget, Upstream]]:
    forward = prepared.forward
    assert forward is not None, "only a reverse proxy is tested"
    with Upstream(servers, transport, forward.protocol) as upstream:
        launcher = Launcher(
            cores=available_cores(),
            rng=rng,
            workers=1,
            give_up=lambda: interruption.asked,
            upstreams=upstream.addresses,
        )
        with launcher.start(prepared, Workload()) as running:
            wait_for_listener(running, give_up=lambda: interruption.asked)
            yield running, upstream


def _run_one(
    config: GatewayConfig,
    case: GatewayCase,
    transport: Transport,
    running: RunningTarget,
    upstream: Upstream,
) -> GatewayResult:
    found = []
    for _ in range(case.repeat):
        try:
            seen = run_gateway_case(case, running.address.connect, upstream, config.splitting)
        except OSError as error:
            reason = f"takes no connection: {(error.strerror or str(error)).lower()}"
            found.append(GatewayJudgement(verdict=GatewayVerdict.UNDECIDED, reason=reason))
            break
        found.append(judge_gateway(case, seen))
    judgement = worst_of(found)
    is_ill = judgement.verdict not in {GatewayVerdict.PASS, GatewayVerdict.DIFFERS}
    if not running.is_alive_after(EXIT_LIMIT_S if is_ill else 0.0):
        judgement = GatewayJudgement(
            verdict=GatewayVerdict.MUST_VIOLATED, reason=f"{running.exit_description()} over it"
        )
    return GatewayResult(case=case, transport=transport, judgement=judgement)
