"""Observed exchanges have the right verdicts."""

import pytest

from jissoku.conformance.case import AlsoAllowed, Case, Ends, Level, Request, Rule
from jissoku.conformance.exchange import ObservedExchange
from jissoku.conformance.judge import CaseVerdict, Judgement, judge, worst
from jissoku.conformance.messages import Response
from jissoku.model.updated import updated

ANSWERED = Case(
    name="a_get",
    clause="RFC 9112 section 3",
    send="GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    requests=(Request(method="GET", target="/"),),
)
REFUSED = updated(ANSWERED, requests=(), status=400)
IN_BODY = updated(
    REFUSED, requests=(Request(method="POST"),), ends=Ends.BODY, send="POST / HTTP/1.1"
)
UNFINISHED = updated(ANSWERED, requests=(), ends=Ends.HEAD)


def answers(*statuses: int, close: bool = False) -> tuple[Response, ...]:
    fields = (("Connection", "close"),) if close else ()
    return tuple(Response(version="1.1", status=status, fields=fields) for status in statuses)


def kept(*statuses: int) -> ObservedExchange:
    """Answers, and the one to the probe."""
    return ObservedExchange(finals=answers(*statuses, 200), probed_at=len(statuses))


def ended(*statuses: int, close: bool = True) -> ObservedExchange:
    return ObservedExchange(finals=answers(*statuses, close=close))


def silent(*statuses: int) -> ObservedExchange:
    return ObservedExchange(finals=answers(*statuses), probed_at=len(statuses), is_silent=True)


def verdict(
    case: Case, seen: ObservedExchange, level: Level = Level.MUST, *also: AlsoAllowed
) -> CaseVerdict:
    return judge(updated(case, level=level, also=frozenset(also)), seen).verdict


@pytest.mark.parametrize("status", [200, 204, 301, 404, 405, 501])
def test_an_answer_is_an_answer_whatever_it_says(status: int) -> None:
    assert verdict(ANSWERED, kept(status)) is CaseVerdict.PASS
    assert verdict(ANSWERED, ended(status)) is CaseVerdict.PASS


def test_a_refusal_where_an_answer_is_due_is_judged_by_level() -> None:
    assert verdict(ANSWERED, ended(400)) is CaseVerdict.MUST_VIOLATED
    assert verdict(ANSWERED, ended(400), Level.SHOULD) is CaseVerdict.SHOULD_VIOLATED
    assert verdict(ANSWERED, ended(400), Level.CHOICE) is CaseVerdict.STRICTER
    assert verdict(ANSWERED, ended(400), Level.MUST, AlsoAllowed.REFUSED) is CaseVerdict.STRICTER
    assert verdict(ANSWERED, kept(500)) is CaseVerdict.MUST_VIOLATED


def test_the_number_of_answers_counts() -> None:
    assert verdict(ANSWERED, kept(200, 200)) is CaseVerdict.MUST_VIOLATED
    assert verdict(ANSWERED, kept(200, 404), Level.CHOICE) is CaseVerdict.MUST_VIOLATED
    assert verdict(ANSWERED, ended()) is CaseVerdict.MUST_VIOLATED
    assert verdict(ANSWERED, silent()) is CaseVerdict.MUST_VIOLATED
    two = updated(ANSWERED, requests=ANSWERED.requests * 2)
    assert verdict(two, kept(200, 200)) is CaseVerdict.PASS
    assert verdict(two, ended(200)) is CaseVerdict.STRICTER
    assert verdict(two, ended(200, close=False)) is CaseVerdict.MUST_VIOLATED


def test_how_the_connection_is_left_counts() -> None:
    assert verdict(ANSWERED, ended(200, close=False)) is CaseVerdict.SHOULD_VIOLATED
    assert verdict(ANSWERED, silent(200)) is CaseVerdict.SHOULD_VIOLATED
    last = updated(ANSWERED, requests=(Request(persists=False),))
    assert verdict(last, ended(200)) is CaseVerdict.PASS
    assert verdict(last, kept(200)) is CaseVerdict.MUST_VIOLATED


def test_a_message_that_has_to_be_refused_is() -> None:
    assert verdict(REFUSED, ended(400)) is CaseVerdict.PASS
    assert verdict(REFUSED, ended(414)) is CaseVerdict.PASS
    assert verdict(REFUSED, kept(400)) is CaseVerdict.LENIENT
    assert verdict(updated(REFUSED, closes=True), kept(400)) is CaseVerdict.MUST_VIOLATED
    assert verdict(updated(REFUSED, statuses=(400,)), ended(414)) is CaseVerdict.MUST_VIOLATED
    assert verdict(REFUSED, ended()) is CaseVerdict.SHOULD_VIOLATED
    assert verdict(REFUSED, silent()) is CaseVerdict.SHOULD_VIOLATED
    assert verdict(REFUSED, silent(), Level.MUST, AlsoAllowed.SILENT) is CaseVerdict.LENIENT


@pytest.mark.parametrize("seen", [kept(200), ended(200), kept(404)])
def test_a_message_that_is_taken_is_judged_by_level(seen: ObservedExchange) -> None:
    assert verdict(REFUSED, seen) is CaseVerdict.MUST_VIOLATED
    assert verdict(REFUSED, seen, Level.SHOULD) is CaseVerdict.SHOULD_VIOLATED
    assert verdict(REFUSED, seen, Level.CHOICE) is CaseVerdict.LENIENT
    assert verdict(REFUSED, seen, Level.MUST, AlsoAllowed.ANSWERED) is CaseVerdict.LENIENT


def test_what_the_standard_also_allows_is_lenient_and_nothing_beyond() -> None:
    assert verdict(REFUSED, ended(200), Level.MUST, AlsoAllowed.LAST) is CaseVerdict.LENIENT
    assert verdict(REFUSED, kept(200), Level.MUST, AlsoAllowed.LAST) is CaseVerdict.MUST_VIOLATED
    assert (
        verdict(REFUSED, kept(200, 200), Level.MUST, AlsoAllowed.ANSWERED)
        is CaseVerdict.MUST_VIOLATED
    )
    assert verdict(REFUSED, kept(200, 404), Level.MUST, AlsoAllowed.TWICE) is CaseVerdict.LENIENT
    assert (
        verdict(REFUSED, kept(200, 404, 200), Level.MUST, AlsoAllowed.TWICE)
        is CaseVerdict.MUST_VIOLATED
    )


def test_an_answer_may_come_before_a_broken_body_and_nothing_after_it() -> None:
    assert verdict(IN_BODY, ended(400)) is CaseVerdict.PASS
    assert verdict(IN_BODY, ended(404)) is CaseVerdict.LENIENT
    assert verdict(IN_BODY, ended(404, 400)) is CaseVerdict.LENIENT
    assert verdict(IN_BODY, kept(404)) is CaseVerdict.MUST_VIOLATED


def test_a_late_refusal_is_no_answer_to_the_probe() -> None:
    late = ObservedExchange(finals=answers(404, 400), probed_at=1)
    assert not late.is_kept_open
    assert verdict(IN_BODY, late) is CaseVerdict.LENIENT


def test_a_method_that_is_not_known_says_nothing_of_the_rest() -> None:
    post = updated(REFUSED, send="POST / HTTP/1.1", statuses=(400,))
    assert verdict(post, ended(501)) is CaseVerdict.LENIENT
    assert verdict(post, kept(501)) is CaseVerdict.MUST_VIOLATED


def test_half_a_request_is_not_answered() -> None:
    assert verdict(UNFINISHED, ended()) is CaseVerdict.PASS
    assert verdict(UNFINISHED, ended(400)) is CaseVerdict.PASS
    assert verdict(UNFINISHED, ended(200)) is CaseVerdict.MUST_VIOLATED


def test_garbage_is_an_answer_to_nothing() -> None:
    garbled = ObservedExchange(malformed="begins with b'<html>'")
    assert verdict(ANSWERED, garbled, Level.CHOICE) is CaseVerdict.MUST_VIOLATED
    assert verdict(REFUSED, garbled) is CaseVerdict.MUST_VIOLATED
    assert verdict(REFUSED, garbled, Level.CHOICE, AlsoAllowed.GARBLED) is CaseVerdict.LENIENT


def test_rules_hold_the_answers_they_speak_of() -> None:
    def ruled(rule: Rule, seen: ObservedExchange) -> CaseVerdict:
        return verdict(updated(ANSWERED, answers=(rule,)), seen)

    assert ruled(Rule(status=(200,)), kept(200)) is CaseVerdict.PASS
    assert ruled(Rule(status=(200,)), kept(404)) is CaseVerdict.MUST_VIOLATED
    assert ruled(Rule(when=(405,), has=("Allow",)), kept(200)) is CaseVerdict.PASS
    assert ruled(Rule(when=(405,), has=("Allow",)), kept(405)) is CaseVerdict.MUST_VIOLATED
    assert ruled(Rule(lacks=("connection",)), ended(200)) is CaseVerdict.MUST_VIOLATED
    assert ruled(Rule(body="hi"), kept(200)) is CaseVerdict.MUST_VIOLATED
    waited = updated(kept(200), interims=((100, 0),))
    assert ruled(Rule(interim=100), kept(200)) is CaseVerdict.MUST_VIOLATED
    assert ruled(Rule(interim=100), waited) is CaseVerdict.PASS
    assert ruled(Rule(interim=0), waited) is CaseVerdict.MUST_VIOLATED


def test_an_echo_shows_what_was_understood() -> None:
    case = updated(ANSWERED, requests=(Request(method="POST", target="/", body="hi"),))
    assert judge(case, kept(200), echoes=False).verdict is CaseVerdict.PASS
    assert judge(case, kept(200), echoes=True).verdict is CaseVerdict.MUST_VIOLATED
    (answer,) = answers(200)
    right = updated(kept(), finals=(updated(answer, body=b"hi"),))
    right = updated(right, probed_at=None)
    assert judge(case, right, echoes=True).reason != "", "it hangs up without a word"
    assert judge(case, right, echoes=True).verdict is CaseVerdict.SHOULD_VIOLATED


def test_the_worst_judgement_stands() -> None:
    some = [
        Judgement(verdict=v)
        for v in (CaseVerdict.LENIENT, CaseVerdict.MUST_VIOLATED, CaseVerdict.PASS)
    ]
    assert worst(some).verdict is CaseVerdict.MUST_VIOLATED
    assert worst([]).verdict is CaseVerdict.PASS
