"""All cases through a reverse proxy: starts it in front of scripted servers, and judges each case.

The proxy is restarted for another set of servers, so that its state about a failed server cannot
affect the next case.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jissoku.conformance.case import GatewayCase, ServerKind, SplitMode
from jissoku.conformance.exchange import run_gateway_case
from jissoku.conformance.judge import GatewayJudgement, GatewayVerdict, judge_gateway, worst_of
from jissoku.conformance.upstream import Upstream
from jissoku.model import Transport, Workload
from jissoku.model.wording import times
from jissoku.system.cores import available_cores
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets.launch import Launcher, wait_for_listener
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

# Limit of restarts of a proxy that exits repeatedly.
RESTARTS_MAX = 5

# An exiting process closes its connections before it ends.
EXIT_LIMIT_S = 0.5

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
        started = _started(config.prepared, case.servers, transport, rng, interruption)
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
        with _started(config.prepared, ALONE, transport, rng, interruption) as (running, upstream):
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
def _started(
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
