"""Load sent from code: `jissoku.load`.

The load generator is that of `jissoku load`; see docs/api.md. It needs none of the laboratory's
libraries, and the laboratory does not use this module.
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from jissoku.errors import InputError, JissokuError, TargetError
from jissoku.serving import Option, flag

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of the latencies of all requests, also of those without a correct response.

    Attributes:
        low_s: Lower end of its interval (95 %).
        high_s: Upper end of its interval; None: it is not known.
        is_lower_bound: The true value may be higher: requests had no correct response, or none yet.
        support: How many samples it rests on: `plenty`, `few` or `none`.
    """

    value_s: float
    low_s: float
    high_s: float | None
    is_lower_bound: bool
    support: str


@dataclass(frozen=True, slots=True)
class Errors:
    """Requests that failed in one way; `example` is the first of them."""

    count: int
    example: str


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """A check of the load generator by itself; `passed` is None where it could not be made."""

    name: str
    value: float
    bound: float
    passed: bool | None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a measurement.

    Attributes:
        requests: Requests with a correct response.
        rate_rps: These per second.
        statuses: Responses by status, also the wrong ones.
        errors: What failed, by kind, such as `timeout`; only kinds that occurred.
        latency: By name: p50, p75, p90, p95, p99, p99.9, p99.99. Counted from the time at which a
            request was due.
        first_byte_s: Time to first byte of correct responses, by name: min, p50, p90, p99, p99.9,
            max and mean; empty if there was none.
        checks: What the load generator found about itself.
        exit_code: That of `jissoku load`: 3 if `slo` is violated, 4 if it is undecided, or if a
            self-check failed and `strict` is given.
        message: Why the exit code is not 0; empty if it is.
        document: The whole result, as `jissoku load --json` prints it.
    """

    url: str
    requests: int
    duration_s: float
    rate_rps: float
    statuses: Mapping[int, int]
    errors: Mapping[str, Errors]
    latency: Mapping[str, Percentile]
    first_byte_s: Mapping[str, float]
    checks: tuple[SelfCheck, ...]
    exit_code: int
    message: str
    document: Mapping[str, Any] = field(repr=False)


def load(
    url: str,
    *,
    connections: int | None = None,
    rate: float | str | None = None,
    duration: float | str | None = None,
    **options: Option,
) -> LoadResult:
    """Sends requests to `url`, verifies every response, and measures times.

    Other threads run meanwhile. Nothing is printed. The process's soft limit of open files is
    raised to the hard one.

    Args:
        url: `http(s)://HOST:PORT/PATH` or `unix:/PATH.sock:/URI`.
        connections: Open connections; 64 by default.
        rate: Requests per second, such as `500`, `"20k"` or `"30/m"`; by default each connection
            sends its next request when the response has arrived.
        duration: In seconds, or as text such as `"1m30s"`; 10 s by default.
        options: Further flags of `jissoku load` with underscores, such as `requests=1000`,
            `header=["Accept: text/html"]` or `slo="p99<5ms"`.

    Raises:
        InputError: An option is unknown or invalid.
        TargetError: There was no correct response.
        JissokuError: The load generator failed.
        KeyboardInterrupt: After Ctrl-C, at once; there is no result.
    """
    # The package is imported without the extension, too.
    from jissoku import _native  # noqa: PLC0415

    given = {"connections": connections, "rate": rate, "duration": duration, **options}
    words = [word for name, value in given.items() for word in flag(name, value)]
    run = _native.LoadRun()
    with ThreadPoolExecutor(1, "jissoku-load") as pool:
        try:
            code, message, text = pool.submit(run.run, [*words, "--", url]).result()
        finally:
            # An exception of a signal handler ends the measurement.
            run.stop()
    if not text:
        raise (InputError if code == 2 else JissokuError)(message)
    return _result(code, message, json.loads(text))


def _result(code: int, message: str, document: dict[str, Any]) -> LoadResult:
    (target,) = document["targets"]
    examples = {one["kind"]: one["message"] for one in target["error_examples"]}
    errors = {
        kind: Errors(count, examples.get(kind, ""))
        for kind, count in target["errors"].items()
        if count
    }
    if not target["requests"]:
        first = next((one.example for one in errors.values() if one.example), "")
        raise TargetError(f"{message}; the first: {first}" if first else message)
    return LoadResult(
        url=target["url"],
        requests=target["requests"],
        duration_s=target["duration_ns"] / NS_PER_S,
        rate_rps=target["rate_rps"],
        statuses={int(status): count for status, count in target["statuses"].items()},
        errors=errors,
        latency={one["name"]: _percentile(one) for one in target["percentiles"]},
        first_byte_s={
            "p99.9" if name == "p999" else name: value_ns / NS_PER_S
            for name, value_ns in (target["first_byte_ns"] or {}).items()
        },
        checks=tuple(
            SelfCheck(one["name"], one["value"], one["bound"], one["passed"])
            for one in document["checks"]
        ),
        exit_code=code,
        message=message,
        document=document,
    )


def _percentile(given: Mapping[str, Any]) -> Percentile:
    high_ns = given["high_ns"]
    return Percentile(
        value_s=given["value_ns"] / NS_PER_S,
        low_s=given["low_ns"] / NS_PER_S,
        high_s=None if high_ns is None else high_ns / NS_PER_S,
        is_lower_bound=given["is_lower_bound"],
        support=given["support"],
    )
