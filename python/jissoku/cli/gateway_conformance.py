"""`jissoku conformance --through`: conformance of a reverse proxy, clause by clause."""

from jissoku.cli import exit_codes
from jissoku.cli.case_results import choose_cases, print_results
from jissoku.cli.conformance_options import ConformanceOptions
from jissoku.cli.gateway_counts import gateway_counts
from jissoku.conformance.case import BUILTIN_GATEWAY_CASES, read_gateway_cases
from jissoku.conformance.judge import GatewayVerdict
from jissoku.errors import InputError
from jissoku.measure.conformance import GatewayConfig, GatewayResult, run_gateway_cases
from jissoku.measure.gateway_counts import GatewayCount
from jissoku.measure.selection import prepare_recipe
from jissoku.model import Transport, UpstreamProtocol
from jissoku.targets.prepare import PreparedTarget


def gateway_conformance(options: ConformanceOptions, proxy: str) -> int:
    """Runs the cases through a proxy and prints the results; returns the exit code."""
    if any(given is not None for given in (options.target, options.cmd, options.url)):
        raise InputError("--through names the target: give no other")
    prepared = prepare_recipe(proxy, options.recipes)
    if prepared.forward is None:
        raise InputError(
            f"{prepared.name} is no reverse proxy: its recipe has no [forward]; give another one"
        )
    transports = _transports(prepared, options.upstream)
    if options.count is not None:
        if prepared.forward.protocol is not UpstreamProtocol.HTTP:
            raise InputError(f"--count needs a proxy in front of HTTP, and {prepared.name} is none")
        return gateway_counts(
            prepared,
            GatewayCount(options.count),
            transports,
            amount=options.amount,
            as_json=options.as_json,
        )
    cases = choose_cases(read_gateway_cases(options.cases or BUILTIN_GATEWAY_CASES), options.case)
    results: list[GatewayResult] = []
    finished = run_gateway_cases(
        GatewayConfig(
            prepared=prepared,
            cases=cases,
            transports=transports,
            splitting=options.sending,
        ),
        results,
    )
    code = print_results(
        prepared, results, GatewayVerdict, show_all=options.show_all, as_json=options.as_json
    )
    return code if finished else exit_codes.INTERRUPTED


def _transports(prepared: PreparedTarget, upstream: str) -> tuple[Transport, ...]:
    assert prepared.forward is not None, "it was asked before"
    if upstream == Transport.TCP:
        return (Transport.TCP,)
    if not prepared.forward.unix:
        if upstream == Transport.UNIX:
            raise InputError(f"{prepared.name} cannot forward to a Unix socket")
        return (Transport.TCP,)
    if upstream == Transport.UNIX:
        return (Transport.UNIX,)
    return (Transport.TCP, Transport.UNIX)
