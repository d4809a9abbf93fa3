"""Compares an observation with its case: pure functions, and the names of their verdicts."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jissoku.conformance.case import (
    AlsoAllowed,
    Case,
    End,
    Ends,
    ExpectedAnswer,
    ExpectedRequest,
    GatewayCase,
    Level,
    Outcome,
    Request,
    Rule,
)
from jissoku.conformance.exchange import REFUSALS, GatewayObservation, ObservedExchange
from jissoku.conformance.messages import ReceivedRequest, Response
from jissoku.model.wording import plural

# Targets reply so to methods that they do not support; a rejection may use the same status.
UNKNOWN = 501
METHOD_UNKNOWN = frozenset({405, UNKNOWN})


class CaseVerdict(StrEnum):
    """The verdict on a target in a case; the worst last."""

    PASS = "pass"  # noqa: S105 - a verdict
    LENIENT = "lenient"  # accepts what jissoku rejects, as the standard allows
    STRICTER = "stricter"  # rejects what jissoku accepts, as the standard allows
    DIFFERS = "differs"  # as the standard permits
    SHOULD_VIOLATED = "SHOULD violated"
    MUST_VIOLATED = "MUST violated"
    UNDECIDED = "undecided"  # no answer was received that could be judged


# Those that a server can have, and those of a reverse proxy.
SERVER_VERDICTS = tuple(verdict for verdict in CaseVerdict if verdict is not CaseVerdict.DIFFERS)
GATEWAY_VERDICTS = tuple(
    verdict for verdict in CaseVerdict if verdict not in {CaseVerdict.LENIENT, CaseVerdict.STRICTER}
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and why, as the end of a sentence about the target."""

    verdict: CaseVerdict
    reason: str = ""


PASSED = Judgement(CaseVerdict.PASS)


def worst(judgements: list[Judgement]) -> Judgement:
    """The worst of several judgements of one case, the first of equals."""
    rank = list(CaseVerdict)
    return max(judgements, key=lambda judgement: rank.index(judgement.verdict), default=PASSED)


def judge(case: Case, seen: ObservedExchange, *, echoes: bool = False) -> Judgement:
    """Judges one case. `echoes`: the target answers a POST with the body that it understood."""
    if case.status is not None:
        found = [_refusal(case, seen)]
    elif case.ends is Ends.IDLE:
        found = [*_answered(case, seen)]
    else:
        found = [_unfinished(case, seen)]
    if seen.malformed and case.status is None:
        reason = f"sends a malformed response: {seen.malformed}"
        allowed = AlsoAllowed.GARBLED in case.also
        found = [
            Judgement(CaseVerdict.LENIENT, reason)
            if allowed
            else Judgement(CaseVerdict.MUST_VIOLATED, reason)
        ]
    found += _rules(case, seen)
    if echoes:
        found += _echo_matches(case, seen)
    return worst(found)


def _refusal(case: Case, seen: ObservedExchange) -> Judgement:
    """A message that jissoku rejects, after the responses to earlier requests."""
    before, rest = seen.answers[: case.whole_count], seen.answers[case.whole_count :]
    if before and before[-1].announces_end and not rest:
        return Judgement(
            CaseVerdict.STRICTER, f"ends the connection after {before[-1].status}, and says so"
        )
    if len(before) < case.whole_count or any(answer.status in REFUSALS for answer in before):
        return _by_level(case, "does not answer what came before it", CaseVerdict.STRICTER)
    if not rest:
        return _no_response(case, seen)
    status = rest[0].status
    if status in REFUSALS or (status == UNKNOWN and _is_about_message(case)):
        return _refused(case, seen, status)
    return _accepted(case, seen, rest)


def _refused(case: Case, seen: ObservedExchange, status: int) -> Judgement:
    if case.statuses and status not in case.statuses:
        wanted = " or ".join(map(str, case.statuses))
        return _by_level(case, f"refuses with {status} and not {wanted}")
    if not seen.is_kept_open:
        return PASSED
    return _by_level(case, f"goes on after its {status}", allowed=not case.closes)


def _is_about_message(case: Case) -> bool:
    """Whether a 501 is about the message; of a POST it may say only that there is no POST."""
    return case.status == UNKNOWN or UNKNOWN in case.statuses or case.send.startswith("GET ")


def _no_response(case: Case, seen: ObservedExchange) -> Judgement:
    if seen.malformed:
        reason = f"sends a malformed response: {seen.malformed}"
        return _by_level(case, reason, allowed=AlsoAllowed.GARBLED in case.also)
    reason = "neither refuses nor answers" if seen.is_silent else "hangs up without a word"
    allowed = seen.is_silent and AlsoAllowed.SILENT in case.also
    if allowed or case.level is Level.CHOICE:
        return Judgement(CaseVerdict.LENIENT, reason)
    return Judgement(CaseVerdict.SHOULD_VIOLATED, reason)


def _accepted(case: Case, seen: ObservedExchange, rest: tuple[Response, ...]) -> Judgement:
    statuses = " and ".join(str(answer.status) for answer in rest)
    goes_on = "goes on" if seen.is_kept_open else "ends the connection"
    reason = f"answers {statuses} and {goes_on}"
    # An answer may come before the body is read; what counts is that nothing follows it.
    is_about_method = rest[0].status in METHOD_UNKNOWN and not _is_about_message(case)
    allowed = (case.ends is Ends.BODY or is_about_method) and not seen.is_kept_open
    allowed |= AlsoAllowed.LAST in case.also and not seen.is_kept_open
    allowed |= AlsoAllowed.ANSWERED in case.also and len(rest) == 1
    allowed |= AlsoAllowed.TWICE in case.also and len(rest) <= 2
    return _by_level(case, reason, allowed=allowed)


def _answered(case: Case, seen: ObservedExchange) -> Iterator[Judgement]:
    """Valid requests: each has its answer, and there is no other answer."""
    answers, wanted = seen.answers, case.whole_count
    for index, answer in enumerate(answers):
        if answer.status in REFUSALS:
            reason = f"refuses with {answer.status}"
            if index >= wanted:
                reason = f"answers, and {reason} afterwards"
            allowed = AlsoAllowed.REFUSED in case.also
            yield _by_level(case, reason, CaseVerdict.STRICTER, allowed=allowed)
            return
    if len(answers) > wanted:
        yield Judgement(
            CaseVerdict.MUST_VIOLATED,
            f"gives {len(answers)} answers to {wanted} {plural(wanted, 'request')}",
        )
    elif len(answers) < wanted:
        yield _missing_responses(case, seen)
    elif not case.persists and seen.is_kept_open:
        yield _by_level(case, "goes on after the last request")
    elif seen.is_silent:
        yield Judgement(CaseVerdict.SHOULD_VIOLATED, "falls silent after its answer")
    elif case.persists and not seen.is_kept_open and answers and not answers[-1].announces_end:
        yield Judgement(CaseVerdict.SHOULD_VIOLATED, "hangs up without saying so before")


def _missing_responses(case: Case, seen: ObservedExchange) -> Judgement:
    answers, wanted = seen.answers, case.whole_count
    answered = f"answers {len(answers)} of {wanted} {plural(wanted, 'request')}"
    if answers and answers[-1].announces_end:
        return Judgement(CaseVerdict.STRICTER, f"{answered}, and says that it ends")
    if not answers and not seen.is_silent and AlsoAllowed.REFUSED in case.also:
        return Judgement(CaseVerdict.STRICTER, "hangs up without a word")
    how = "falls silent" if seen.is_silent else "hangs up"
    return _by_level(case, f"{answered} and {how}", CaseVerdict.SHOULD_VIOLATED)


def _unfinished(case: Case, seen: ObservedExchange) -> Judgement:
    """A request whose end never comes (RFC 9112 section 8)."""
    rest = seen.answers[case.whole_count :]
    if len(seen.answers) < case.whole_count:
        return _missing_responses(case, seen)
    taken = [answer for answer in rest if answer.status not in REFUSALS]
    if not taken:
        return PASSED
    reason = f"answers {taken[0].status} to a request that has not ended"
    if case.ends is Ends.BODY:
        return Judgement(CaseVerdict.LENIENT, reason + ", perhaps before reading it")
    return _by_level(case, reason)


def _rules(case: Case, seen: ObservedExchange) -> Iterator[Judgement]:
    for rule in case.answers:
        if rule.index >= len(seen.answers):
            continue
        answer = seen.answers[rule.index]
        reasons = []
        if rule.like is not None and rule.like < len(seen.answers):
            other = seen.answers[rule.like]
            for name in ("Content-Length", "Content-Type"):
                ours, theirs = answer.value(name), other.value(name)
                if answer.status == other.status and answer.has(name) and ours != theirs:
                    reasons.append(f"answers with {name} {ours} and not {theirs}")
        if not rule.when or answer.status in rule.when:
            reasons += _breaches(rule, answer, seen)
        yield from (_by_level(case, reason) for reason in reasons)


def _breaches(rule: Rule, answer: Response, seen: ObservedExchange) -> Iterator[str]:
    if rule.status and answer.status not in rule.status:
        yield f"answers {answer.status} and not {' or '.join(map(str, rule.status))}"
    for name in rule.has:
        if not answer.has(name):
            yield f"answers {answer.status} without {name}"
    for name in rule.lacks:
        if answer.has(name):
            yield f"answers {answer.status} with {name}"
    if rule.body is not None and answer.body != rule.body.encode("latin-1"):
        yield f"answers with the body {answer.body[:40]!r}"
    interims = [status for status, before in seen.interims if before == rule.index]
    if rule.interim and rule.interim not in interims:
        yield f"sends no {rule.interim} before its answer"
    if rule.interim == 0 and interims:
        yield f"sends {interims[0]} before its answer"


def _echo_matches(case: Case, seen: ObservedExchange) -> Iterator[Judgement]:
    whole = case.requests[: case.whole_count]
    for request, answer in zip(whole, seen.answers, strict=False):
        wanted = _echo(request)
        if wanted is not None and answer.status == 200 and answer.body != wanted:
            yield Judgement(
                CaseVerdict.MUST_VIOLATED,
                f"understood {answer.body[:60]!r} and not {wanted[:60]!r}",
            )


def _echo(request: Request) -> bytes | None:
    """What an echoing target answers: a POST's body, and at /echo the fields as they came.

    Nothing is known of the body of a request without a target.
    """
    if request.method == "POST" and request.target:
        return request.body.encode("latin-1")
    if request.target == "/echo" and request.method == "GET" and request.fields is not None:
        lines = [f"{name}: {value}\n" for name, value in request.fields]
        return "".join(lines).encode("latin-1")
    return None


def _by_level(
    case: Case | GatewayCase,
    reason: str,
    choice: CaseVerdict = CaseVerdict.LENIENT,
    *,
    allowed: bool = False,
) -> Judgement:
    """The verdict of a difference: `choice` where the standard leaves one, or it is allowed."""
    by_level = {Level.MUST: CaseVerdict.MUST_VIOLATED, Level.SHOULD: CaseVerdict.SHOULD_VIOLATED}
    return Judgement(choice if allowed else by_level.get(case.level, choice), reason)


def judge_gateway(case: GatewayCase, seen: GatewayObservation) -> Judgement:
    """Judges one run of a case: the required outcome, another permitted one, or neither."""
    reasons = list(_deviations(case, seen))
    if not reasons:
        return PASSED
    for outcome in case.also:
        others = list(_deviations(outcome, seen))
        if not others:
            return Judgement(CaseVerdict.DIFFERS, outcome.why or reasons[0])
        # The nearest of the outcomes that did not occur describes the fault best.
        reasons = min(reasons, others, key=len)
    return _by_level(case, reasons[0], CaseVerdict.DIFFERS)


def _deviations(wanted: Outcome, seen: GatewayObservation) -> Iterator[str]:
    for one in seen.connections:
        if one.malformed:
            yield f"forwards a malformed request: {one.malformed}"
    if wanted.forwarded is not None:
        yield from _forwarded(wanted.forwarded, seen)
    if wanted.got is not None:
        yield from _got(wanted.got, seen)
    if wanted.end is End.CLOSED and not seen.end:
        yield "keeps the client's connection open"
    if wanted.end is End.OPEN and not seen.is_kept_open:
        yield "does not keep the client's connection"
    if wanted.upstream_end not in {End.ANY, seen.upstream_end}:
        how = "closes" if seen.upstream_end is End.CLOSED else "keeps"
        yield f"{how} the connection to the server"


def _forwarded(wanted: tuple[ExpectedRequest, ...], seen: GatewayObservation) -> Iterator[str]:
    requests, count = seen.requests, len(seen.requests)
    if count != len(wanted):
        shown = ", ".join(f"{one.method} {one.target}"[:60] for one in requests[:4])
        of = f" ({shown})" if shown else ""
        yield f"forwards {count or 'no'} {plural(count, 'request')} and not {len(wanted)}{of}"
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
    if wanted.is_complete and not request.is_complete:
        yield "forwards a body without its end"
    if wanted.is_complete is False and request.is_complete:
        yield "forwards an end of the body that was not sent"


def _elements(value: str) -> list[str]:
    """The elements of a list; space around commas is optional (RFC 9110 section 5.6.1)."""
    return [element.strip(" \t") for element in value.split(",")]


def _got(wanted: tuple[ExpectedAnswer, ...], seen: GatewayObservation) -> Iterator[str]:
    if seen.malformed:
        yield f"sends a malformed response: {seen.malformed}"
        return
    statuses, count = [answer.status for answer in seen.finals], len(seen.finals)
    if count != len(wanted):
        shown = f" ({', '.join(map(str, statuses[:4]))})" if statuses else ""
        how = ""
        if count < len(wanted):
            how = f" but {seen.raw[:40]!r}" if seen.raw and not statuses else ""
            how += f", and ends with {seen.end}" if seen.end else ""
        yield f"sends {count or 'no'} {plural(count, 'response')} and not {len(wanted)}{shown}{how}"
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
