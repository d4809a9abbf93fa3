"""All cases against one target: starts it, runs each case on a new connection, and evaluates it.

A target that exits during a case has failed it, and is restarted for the next. A reverse proxy is
also restarted for another set of servers, so that its state about a failed server cannot affect
the next case.
"""

import http.client
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from jissoku.conformance.applications import BUILTIN_CASES, check_case, read_cases
from jissoku.conformance.case import Case, GatewayCase, ServerKind, SplitMode, split_points
from jissoku.conformance.exchange import run_case, run_gateway_case
from jissoku.conformance.judge import CaseVerdict, Judgement, judge, judge_gateway, worst
from jissoku.conformance.upstream import Upstream
from jissoku.errors import InputError, TargetError
from jissoku.model import StartCommand, Transport, Workload, times
from jissoku.system.address import Address
from jissoku.system.cores import available_cores
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets import response
from jissoku.targets.launch import Launcher, require_reachable, wait_for_listener
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

# Limits of restarts of a target that exits repeatedly; applications of many cases end more often.
RESTARTS_MAX = 5
APP_RESTARTS_MAX = 20

# An exiting process closes its connections first, and may have to wait for a core to end.
EXIT_LIMIT_S = 0.5

TOKEN = b"what was understood"

One = TypeVar("One")
Context = TypeVar("Context")
Result = TypeVar("Result")

# The applications of recipes, and those of the cases.
CASES_MODULES = {"wsgi_app": "wsgi_cases", "asgi_app": "asgi_cases"}

# Cases of the application of each interface.
CASES_FILES = {"wsgi_app": ("wsgi.toml",), "asgi_app": ("asgi.toml", "websocket.toml")}

# Words of recipes that switch off what the cases need: the lifespan, by Granian's interface without
# it or an option of others, and WebSockets.
WITHOUT_LIFESPAN = {"asginl": "asgi", "off": "on"}
WITHOUT_WEBSOCKETS = "--no-ws"

ALONE = (ServerKind.SCRIPTED,)
OFTEN_DEAD = Judgement(CaseVerdict.UNDECIDED, f"had died {times(RESTARTS_MAX)} before it")


def _collected(found: Callable[[Interruption], Iterator[Result]]) -> tuple[list[Result], bool]:
    """All results, and whether it was not interrupted: then those until then."""
    results: list[Result] = []
    with Interruption() as interruption, suppress(Interrupted):
        for result in found(interruption):
            results.append(result)  # noqa: PERF402 - keeps finished results after an interruption
        return results, True
    return results, False


def _with_restarts(
    left: list[One],
    start: Callable[[], AbstractContextManager[tuple[RunningTarget, Context]]],
    run_one: Callable[[One, RunningTarget, Context], Result],
    restarts_max: int,
) -> Iterator[Result]:
    """Runs cases one after the other on one start, and on another one after the target has exited.

    Those for which it would have to be started too often stay in `left`.
    """
    for _ in range(restarts_max):
        if not left:
            return
        with start() as (running, context):
            while left and running.is_alive():
                yield run_one(left.pop(0), running, context)


@contextmanager
def started_gateway(
    prepared: PreparedTarget,
    upstreams: tuple[Address, ...],
    rng: random.Random,
    interruption: Interruption,
) -> Iterator[RunningTarget]:
    launcher = _launcher(rng, interruption, upstreams)
    with launcher.start(prepared, Workload()) as running:
        wait_for_listener(running, launcher.give_up)
        yield running


def _launcher(
    rng: random.Random, interruption: Interruption, upstreams: tuple[Address, ...] = ()
) -> Launcher:
    return Launcher(
        cores=available_cores(),
        rng=rng,
        workers=1,
        give_up=lambda: interruption.asked,
        upstreams=upstreams,
    )


def _exit_over_it(running: RunningTarget, *, is_suspect: bool) -> str:
    """How a target ended in a case; empty if it runs. A suspect gets some time to end."""
    if running.is_alive_after(EXIT_LIMIT_S if is_suspect else 0.0):
        return ""
    return f"{running.exit_description()} over it"


def _refusal(error: OSError) -> str:
    return f"takes no connection: {(error.strerror or str(error)).lower()}"


@dataclass(frozen=True, slots=True)
class CaseResult:
    case: Case | GatewayCase
    judgement: Judgement
    transport: Transport | None = None


def run_cases(
    prepared: PreparedTarget, cases: Sequence[Case], sending: SplitMode
) -> tuple[list[CaseResult], bool]:
    """The result of each case, whose bytes are split so; and whether it was not interrupted."""
    rng, left = random.Random(0), list(cases)

    def found(interruption: Interruption) -> Iterator[CaseResult]:
        def run_one(case: Case, running: RunningTarget, echoes: bool) -> CaseResult:  # noqa: FBT001
            interruption.check()
            judgement = _run_case(running, case, sending, echoes=echoes)
            is_ill = judgement.verdict in {CaseVerdict.MUST_VIOLATED, CaseVerdict.UNDECIDED}
            if death := _exit_over_it(running, is_suspect=is_ill):
                judgement = Judgement(CaseVerdict.MUST_VIOLATED, death)
            return CaseResult(case, judgement)

        def start() -> AbstractContextManager[tuple[RunningTarget, bool]]:
            return _started(prepared, rng, interruption)

        yield from _with_restarts(left, start, run_one, RESTARTS_MAX)
        yield from (CaseResult(case, OFTEN_DEAD) for case in left)

    return _collected(found)


@contextmanager
def _started(
    prepared: PreparedTarget, rng: random.Random, interruption: Interruption
) -> Iterator[tuple[RunningTarget, bool]]:
    """Yields a target and whether it echoes; an external server may give any answer."""
    launcher = _launcher(rng, interruption)
    if prepared.address is not None:
        with launcher.start(prepared, Workload()) as running:
            require_reachable(running.name, running.address)
            yield running, _echoes(running)
        return
    try:
        with launcher.ready(prepared, Workload()) as running:
            yield running, _echoes(running)
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
    for places in split_points(len(case.send), sending, case.send.find("\r")):
        try:
            seen = run_case(case, running.address.connect, places)
        except OSError as error:
            judgements.append(Judgement(CaseVerdict.UNDECIDED, _refusal(error)))
            break
        found = judge(case, seen, echoes=echoes)
        if places:
            how = f"cut after {places[0]} bytes" if len(places) == 1 else "sent byte by byte"
            reason = f"{found.reason} ({how})" if found.reason else ""
            found = Judgement(found.verdict, reason)
        judgements.append(found)
    return worst(judgements)


@dataclass(frozen=True, slots=True)
class AppCaseResult:
    """`wrong` says how the answers deviate; it is empty if they do not."""

    name: str
    clause: str
    wrong: str


def run_app_cases(prepared: PreparedTarget) -> Iterator[AppCaseResult]:
    served, files = _with_cases(prepared)
    left = [case for name in files for case in read_cases(BUILTIN_CASES / name)]
    launcher = Launcher(cores=available_cores(), rng=random.Random(0), workers=1)
    workload = Workload(headers=(("Case", "hello"),))

    @contextmanager
    def start() -> Iterator[tuple[RunningTarget, None]]:
        with launcher.ready(served, workload) as running:
            yield running, None

    def run_one(case: dict[str, Any], running: RunningTarget, _: None) -> AppCaseResult:
        wrong = check_case(case, running.address)
        wrong = wrong and (_exit_over_it(running, is_suspect=True) or wrong)
        return AppCaseResult(case["name"], case["clause"], wrong)

    yield from _with_restarts(left, start, run_one, APP_RESTARTS_MAX)
    for case in left:
        wrong = f"not run: the server had exited {APP_RESTARTS_MAX} times"
        yield AppCaseResult(case["name"], case["clause"], wrong)


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
            before = ("", *command)
            command = [
                WITHOUT_LIFESPAN.get(word, word)
                if option.endswith("-lifespan") or option == "--interface"
                else word
                for option, word in zip(before, command, strict=False)
                if word != WITHOUT_WEBSOCKETS
            ]
        environment = {**start.environment, "APP_MODULE": cases}
        started = StartCommand(command=tuple(command), environment=environment)
        return replace(prepared, start=started), CASES_FILES[contract]
    modules = " nor ".join(f"{contract}.py" for contract in CASES_MODULES)
    raise InputError(f"{prepared.name} serves neither {modules}, see its recipe")


def run_gateway_cases(
    prepared: PreparedTarget,
    cases: Sequence[GatewayCase],
    transports: Sequence[Transport],
    splitting: SplitMode,
) -> tuple[list[CaseResult], bool]:
    """The result of each case, with servers on each transport; and whether it was not interrupted.

    Client and servers split the bytes that they send so.
    """
    rng = random.Random(0)

    def found(interruption: Interruption) -> Iterator[CaseResult]:
        for transport in transports:
            yield from _GatewayCases(prepared, cases, transport, splitting, rng, interruption).run()

    return _collected(found)


@dataclass(frozen=True, slots=True)
class _GatewayCases:
    prepared: PreparedTarget
    cases: Sequence[GatewayCase]
    transport: Transport
    splitting: SplitMode
    rng: random.Random
    interruption: Interruption

    def run(self) -> Iterator[CaseResult]:
        # Cases with one scripted server share a start of the proxy, until it exits.
        shared = [case for case in self.cases if case.servers == ALONE]
        yield from _with_restarts(shared, self._started, self._run_one, RESTARTS_MAX)
        for case in shared:
            yield CaseResult(case, OFTEN_DEAD, self.transport)
        forward = self.prepared.forward
        servers_max = forward.servers_max if forward is not None else None
        for case in self.cases:
            if case.servers == ALONE:
                continue
            self.interruption.check()
            if servers_max is not None and len(case.servers) > servers_max:
                reason = "its recipe forwards to one server only"
                yield CaseResult(case, Judgement(CaseVerdict.UNDECIDED, reason), self.transport)
                continue
            with self._started(case.servers) as (running, upstream):
                yield self._run_one(case, running, upstream)

    @contextmanager
    def _started(
        self, servers: Sequence[ServerKind] = ALONE
    ) -> Iterator[tuple[RunningTarget, Upstream]]:
        prepared = self.prepared
        assert prepared.forward is not None, "only a reverse proxy is tested"
        with (
            Upstream(servers, self.transport, prepared.forward.protocol) as upstream,
            started_gateway(prepared, upstream.addresses, self.rng, self.interruption) as running,
        ):
            yield running, upstream

    def _run_one(self, case: GatewayCase, running: RunningTarget, upstream: Upstream) -> CaseResult:
        self.interruption.check()
        found = []
        for _ in range(case.repeat):
            try:
                seen = run_gateway_case(case, running.address.connect, upstream, self.splitting)
            except OSError as error:
                found.append(Judgement(CaseVerdict.UNDECIDED, _refusal(error)))
                break
            found.append(judge_gateway(case, seen))
        judgement = worst(found)
        is_ill = judgement.verdict not in {CaseVerdict.PASS, CaseVerdict.DIFFERS}
        if death := _exit_over_it(running, is_suspect=is_ill):
            judgement = Judgement(CaseVerdict.MUST_VIOLATED, death)
        return CaseResult(case, judgement, self.transport)
