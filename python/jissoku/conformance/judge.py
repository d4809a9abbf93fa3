"""Compares an observed exchange with its case: a pure function, and the names of its verdicts."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jissoku.conformance.case import AlsoAllowed, Case, Ends, Level, Request, Rule
from jissoku.conformance.exchange import REFUSALS, ObservedExchange
from jissoku.conformance.responses import Response
from jissoku.model.wording import plural

# Targets reply so to methods that they do not support; a rejection may use the same status.
UNKNOWN = 501
METHOD_UNKNOWN = frozenset({405, UNKNOWN})


class CaseVerdict(StrEnum):
    """The verdict on a target in a case; the worst last."""

    PASS = "pass"  # noqa: S105 - a verdict
    LENIENT = "lenient"  # accepts what jissoku rejects, as the standard allows
    STRICTER = "stricter"  # rejects what jissoku accepts, as the standard allows
    SHOULD_VIOLATED = "SHOULD violated"
    MUST_VIOLATED = "MUST violated"
    UNDECIDED = "undecided"  # no answer was received that could be judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, and why, as the end of a sentence about the target."""

    verdict: CaseVerdict
    reason: str = ""


PASSED = Judgement(verdict=CaseVerdict.PASS)

RANK = tuple(CaseVerdict)


def worst(judgements: list[Judgement]) -> Judgement:
    """The worst of several judgements of one case, the first of equals."""
    return max(judgements, key=lambda judgement: RANK.index(judgement.verdict), default=PASSED)


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
            Judgement(verdict=CaseVerdict.LENIENT, reason=reason)
            if allowed
            else _must_violated(reason)
        ]
    found += _rules(case, seen)
    if echoes:
        found += _echo_matches(case, seen)
    return worst(found)


def _refusal(case: Case, seen: ObservedExchange) -> Judgement:
    """A message that jissoku rejects, after the responses to earlier requests."""
    before, rest = seen.answers[: case.whole_count], seen.answers[case.whole_count :]
    if before and before[-1].announces_end and not rest:
        return _stricter(f"ends the connection after {before[-1].status}, and says so")
    if len(before) < case.whole_count or any(_is_refusal(answer) for answer in before):
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
        return _by_level(case, f"refuses with {status} and not {wanted}", CaseVerdict.LENIENT)
    if not seen.is_kept_open:
        return PASSED
    reason = f"goes on after its {status}"
    if case.closes:
        return _by_level(case, reason, CaseVerdict.LENIENT)
    return Judgement(verdict=CaseVerdict.LENIENT, reason=reason)


def _is_about_message(case: Case) -> bool:
    """Whether a 501 is about the message; of a POST it may say only that there is no POST."""
    return case.status == UNKNOWN or UNKNOWN in case.statuses or case.send.startswith(b"GET ")


def _no_response(case: Case, seen: ObservedExchange) -> Judgement:
    if seen.malformed:
        reason = f"sends a malformed response: {seen.malformed}"
        if AlsoAllowed.GARBLED in case.also:
            return Judgement(verdict=CaseVerdict.LENIENT, reason=reason)
        return _by_level(case, reason, CaseVerdict.LENIENT)
    if seen.is_silent:
        reason, allowed = "neither refuses nor answers", AlsoAllowed.SILENT in case.also
    else:
        reason, allowed = "hangs up without a word", False
    if allowed or case.level is Level.CHOICE:
        return Judgement(verdict=CaseVerdict.LENIENT, reason=reason)
    return Judgement(verdict=CaseVerdict.SHOULD_VIOLATED, reason=reason)


def _accepted(case: Case, seen: ObservedExchange, rest: tuple[Response, ...]) -> Judgement:
    """The target accepted what jissoku rejects."""
    statuses = " and ".join(str(answer.status) for answer in rest)
    goes_on = "goes on" if seen.is_kept_open else "ends the connection"
    reason = f"answers {statuses} and {goes_on}"
    # An answer may come before the body is read; what counts is that nothing follows it.
    is_about_method = rest[0].status in METHOD_UNKNOWN and not _is_about_message(case)
    allowed = (case.ends is Ends.BODY or is_about_method) and not seen.is_kept_open
    allowed |= AlsoAllowed.LAST in case.also and not seen.is_kept_open
    allowed |= AlsoAllowed.ANSWERED in case.also and len(rest) == 1
    allowed |= AlsoAllowed.TWICE in case.also and len(rest) <= 2
    if allowed:
        return Judgement(verdict=CaseVerdict.LENIENT, reason=reason)
    return _by_level(case, reason, CaseVerdict.LENIENT)


def _answered(case: Case, seen: ObservedExchange) -> Iterator[Judgement]:
    """Valid requests: each has its answer, and there is no other answer."""
    answers, wanted = seen.answers, case.whole_count
    refused = next((answer for answer in answers[:wanted] if _is_refusal(answer)), None)
    if refused is not None:
        allowed = AlsoAllowed.REFUSED in case.also
        reason = f"refuses with {refused.status}"
        yield _stricter(reason) if allowed else _by_level(case, reason, CaseVerdict.STRICTER)
        return
    late = next((answer for answer in answers[wanted:] if _is_refusal(answer)), None)
    if late is not None:
        allowed = AlsoAllowed.REFUSED in case.also
        reason = f"answers, and refuses with {late.status} afterwards"
        yield _stricter(reason) if allowed else _by_level(case, reason, CaseVerdict.STRICTER)
    elif len(answers) > wanted:
        yield _must_violated(
            f"gives {len(answers)} answers to {wanted} {plural(wanted, 'request')}"
        )
    elif len(answers) < wanted:
        yield _missing_responses(case, seen)
    else:
        yield from _connection_state(case, seen, answers[-1] if answers else None)


def _connection_state(
    case: Case, seen: ObservedExchange, last: Response | None
) -> Iterator[Judgement]:
    if not case.persists and seen.is_kept_open:
        yield _by_level(case, "goes on after the last request", CaseVerdict.LENIENT)
    elif seen.is_silent:
        yield Judgement(verdict=CaseVerdict.SHOULD_VIOLATED, reason="falls silent after its answer")
    elif case.persists and not seen.is_kept_open and last and not last.announces_end:
        yield Judgement(
            verdict=CaseVerdict.SHOULD_VIOLATED, reason="hangs up without saying so before"
        )


def _missing_responses(case: Case, seen: ObservedExchange) -> Judgement:
    answers, wanted = seen.answers, case.whole_count
    answered = f"answers {len(answers)} of {wanted} {plural(wanted, 'request')}"
    if answers and answers[-1].announces_end:
        return _stricter(f"{answered}, and says that it ends")
    if not answers and not seen.is_silent and AlsoAllowed.REFUSED in case.also:
        return _stricter("hangs up without a word")
    how = "falls silent" if seen.is_silent else "hangs up"
    return _by_level(case, f"{answered} and {how}", CaseVerdict.SHOULD_VIOLATED)


def _unfinished(case: Case, seen: ObservedExchange) -> Judgement:
    """A request whose end never comes (RFC 9112 section 8)."""
    rest = seen.answers[case.whole_count :]
    if len(seen.answers) < case.whole_count:
        return _missing_responses(case, seen)
    taken = [answer for answer in rest if not _is_refusal(answer)]
    if not taken:
        return PASSED
    reason = f"answers {taken[0].status} to a request that has not ended"
    if case.ends is Ends.BODY:
        return Judgement(verdict=CaseVerdict.LENIENT, reason=reason + ", perhaps before reading it")
    return _by_level(case, reason, CaseVerdict.LENIENT)


def _rules(case: Case, seen: ObservedExchange) -> Iterator[Judgement]:
    for rule in case.answers:
        if rule.index >= len(seen.answers):
            continue
        answer = seen.answers[rule.index]
        if rule.like is not None and rule.like < len(seen.answers):
            yield from _unlike(case, answer, seen.answers[rule.like])
        if not rule.when or answer.status in rule.when:
            yield from (
                _by_level(case, reason, CaseVerdict.LENIENT)
                for reason in _breaches(rule, answer, seen)
            )


def _unlike(case: Case, answer: Response, other: Response) -> Iterator[Judgement]:
    for name in ("Content-Length", "Content-Type"):
        ours, theirs = answer.value(name), other.value(name)
        if answer.status == other.status and answer.has(name) and ours != theirs:
            yield _by_level(
                case, f"answers with {name} {ours} and not {theirs}", CaseVerdict.LENIENT
            )


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
            yield _must_violated(f"understood {answer.body[:60]!r} and not {wanted[:60]!r}")


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


def _is_refusal(answer: Response) -> bool:
    return answer.status in REFUSALS


def _by_level(case: Case, reason: str, choice: CaseVerdict) -> Judgement:
    """The verdict of a difference: `choice` where the standard leaves a choice."""
    by_level = {
        Level.MUST: CaseVerdict.MUST_VIOLATED,
        Level.SHOULD: CaseVerdict.SHOULD_VIOLATED,
        Level.CHOICE: choice,
    }
    return Judgement(verdict=by_level[case.level], reason=reason)


def _must_violated(reason: str) -> Judgement:
    return Judgement(verdict=CaseVerdict.MUST_VIOLATED, reason=reason)


def _stricter(reason: str) -> Judgement:
    return Judgement(verdict=CaseVerdict.STRICTER, reason=reason)
