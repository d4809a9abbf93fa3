"""Cases for reverse proxies: a scripted client in front of one, scripted servers behind it."""

from jissoku.conformance.gateway.case import GatewayCase, read_gateway_cases
from jissoku.conformance.gateway.judge import GatewayVerdict, judge_gateway
from jissoku.conformance.gateway.run_case import run_gateway_case
from jissoku.conformance.gateway.upstream import Upstream

__all__ = [
    "GatewayCase",
    "GatewayVerdict",
    "Upstream",
    "judge_gateway",
    "read_gateway_cases",
    "run_gateway_case",
]
