"""Compares the observation of a proxy with its case: a pure function."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jissoku.conformance.case import Level
from jissoku.conformance.gateway.case import (
    End,
    ExpectedAnswer,
    ExpectedRequest,
    GatewayCase,
    Outcome,
)
from jissoku.conformance.gateway.request_reader import ReceivedRequest
from jissoku.conformance.gateway.run_case import GatewayObservation
from jissoku.conformance.responses import Response


class GatewayVerdict(StrEnum):
    """The verdict on a proxy in a case; the worst last."""

    PASS = "pass"  # noqa: S105 - a verdict
    DIFFERS = "differs"  # as the standard permits
    SHOULD_VIOLATED = "SHOULD violated"
    MUST_VIOLATED = "MUST violated"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayJudgement:
    """A verdict, and why, as the end of a sentence about the proxy."""

    verdict: GatewayVerdict
    reason: str = ""


BY_LEVEL = {
    Level.MUST: GatewayVerdict.MUST_VIOLATED,
    Level.SHOULD: GatewayVerdict.SHOULD_VIOLATED,
    Level.CHOICE: GatewayVerdict.DIFFERS,
}


def judge_gateway(case: GatewayCase, seen: GatewayObservation) -> GatewayJudgement:
    """Judges one run of a case: the required outcome, another permitted one, or neither."""
    reasons = list(_deviations(case.outcome, seen))
    if not reasons:
        return GatewayJudgement(verdict=GatewayVerdict.PASS)
    for outcome in case.also:
        others = list(_deviations(outcome, seen))
        if not others:
            return GatewayJudgement(
                verdict=GatewayVerdict.DIFFERS, reason=outcome.why or reasons[0]
            )
        # Of the outcomes that did not occur, the nearest describes the fault best.
        reasons = min(reasons, others, key=len)
    return GatewayJudgement(verdict=BY_LEVEL[case.level], reason=reasons[0])


def worst_of(found: list[GatewayJudgement]) -> GatewayJudgement:
    """The worst of several judgements, the first of equals."""
    rank = list(GatewayVerdict)
    return max(found, key=lambda one: rank.index(one.verdict))


def _deviations(wanted: Outcome, seen: GatewayObservation) -> Iterator[str]:
    for one in seen.connections:
        if one.malformed:
            yield f"forwards a malformed request: {one.malformed}"
    if wanted.forwarded is not None:
        yield from _forwarded(wanted.forwarded, seen)
    if wanted.got is not None:
        yield from _got(wanted.got, seen)
    yield from _ends(wanted, seen)


def _forwarded(wanted: tuple[ExpectedRequest, ...], seen: GatewayObservation) -> Iterator[str]:
    requests = seen.requests
    if len(requests) != len(wanted):
        shown = ", ".join(f"{one.method} {one.target}"[:60] for one in requests[:4])
        of = f" ({shown})" if shown else ""
        yield f"forwards {_count(len(requests), 'request')} and not {len(wanted)}{of}"
        return
    for index, (expected, request) in enumerate(zip(wanted, requests, strict=True)):
        yield from _request(expected, request)
        if expected.connection and index:
            is_same = request.connection == requests[index - 1].connection
            if is_same is not (expected.connection == "same"):
                how = "on the same connection" if is_same else "on a new connection"
                yield f"forwards request {index + 1} {how}"


def _request(wanted: ExpectedRequest, request: ReceivedRequest) -> Iterator[str]:
    for what in ("method", "target"):
        value = getattr(wanted, what)
        if value and getattr(request, what) != value:
            yield f"forwards the {what} {getattr(request, what)[:60]!r} and not {value[:60]!r}"
    if wanted.version and request.version != wanted.version:
        yield f"forwards HTTP/{request.version}"
    yield from _fields("forwards", wanted, request)
    for name, value in wanted.order:
        if _elements(request.value(name)) != _elements(value):
            yield f"forwards {name} as {request.value(name)[:60]!r} and not {value!r}"
    yield from _body("forwards", wanted, request.body)
    yield from _raw("forwards", wanted, bytes(request.raw))
    if wanted.is_complete is not None and request.is_complete is not wanted.is_complete:
        yield (
            "forwards a body without its end"
            if wanted.is_complete
            else ("forwards an end of the body that was not sent")
        )


def _elements(value: str) -> list[str]:
    """The elements of a list; space around commas is optional (RFC 9110 section 5.6.1)."""
    return [element.strip(" \t") for element in value.split(",")]


def _got(wanted: tuple[ExpectedAnswer, ...], seen: GatewayObservation) -> Iterator[str]:
    if seen.malformed:
        yield f"sends a malformed response: {seen.malformed}"
        return
    statuses = [answer.status for answer in seen.finals]
    if len(statuses) != len(wanted):
        shown = f" ({', '.join(map(str, statuses[:4]))})" if statuses else ""
        how = ""
        if len(statuses) < len(wanted):
            how = f" but {seen.raw[:40]!r}" if seen.raw and not statuses else ""
            how += f", and ends with {seen.end}" if seen.end else ""
        yield f"sends {_count(len(statuses), 'response')} and not {len(wanted)}{shown}{how}"
        return
    for index, (expected, answer) in enumerate(zip(wanted, seen.finals, strict=True)):
        yield from _answer(expected, answer, index, seen)


def _answer(
    wanted: ExpectedAnswer, answer: Response, index: int, seen: GatewayObservation
) -> Iterator[str]:
    if wanted.status and answer.status not in wanted.status:
        yield f"sends {answer.status} and not {' or '.join(map(str, wanted.status))}"
    if wanted.version and answer.version != wanted.version:
        yield f"sends HTTP/{answer.version}"
    yield from _fields("sends", wanted, answer)
    is_cut = seen.is_cut and index == len(seen.finals) - 1
    if is_cut is not wanted.is_cut:
        yield "cuts the response" if is_cut else "does not show that the response was cut"
    if not is_cut:
        yield from _body("sends", wanted, answer.body)
    yield from _raw("sends", wanted, seen.raw)
    interims = tuple(status for status, before in seen.interims if before == index)
    if wanted.interim is not None and interims != wanted.interim:
        sent = " and ".join(map(str, interims)) or "no interim response"
        yield f"sends {sent} before {answer.status}"


def _fields(
    verb: str, wanted: ExpectedRequest | ExpectedAnswer, found: ReceivedRequest | Response
) -> Iterator[str]:
    for name in wanted.has:
        if not found.has(name):
            yield f"{verb} no {name}"
    for name in wanted.lacks:
        if found.has(name):
            yield f"{verb} {name}: {found.value(name)[:60]}"
    for name, value in wanted.fields:
        if not any(key.lower() == name.lower() and text == value for key, text in found.fields):
            yield f"{verb} {name}: {found.value(name)[:60]!r} and not {value!r}"


def _body(verb: str, wanted: ExpectedRequest | ExpectedAnswer, body: bytes) -> Iterator[str]:
    if wanted.body is not None and body != wanted.body.encode("latin-1"):
        yield f"{verb} the body {body[:40]!r} and not {wanted.body[:40].encode('latin-1')!r}"
    if wanted.body_size is not None and len(body) != wanted.body_size:
        yield f"{verb} a body of {len(body)} bytes and not {wanted.body_size}"


def _raw(verb: str, wanted: ExpectedRequest | ExpectedAnswer, raw: bytes) -> Iterator[str]:
    for text in wanted.raw_has:
        if text.encode("latin-1") not in raw:
            yield f"{verb} no {text!r}"
    for text in wanted.raw_lacks:
        if text.encode("latin-1") in raw:
            yield f"{verb} {text!r}"


def _ends(wanted: Outcome, seen: GatewayObservation) -> Iterator[str]:
    if wanted.end is End.CLOSED and not seen.end:
        yield "keeps the client's connection open"
    if wanted.end is End.OPEN and not seen.is_kept_open:
        yield "does not keep the client's connection"
    if wanted.upstream_end not in {End.ANY, seen.upstream_end}:
        how = "closes" if seen.upstream_end is End.CLOSED else "keeps"
        yield f"{how} the connection to the server"


def _count(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}" + ("s" if count != 1 else "")
