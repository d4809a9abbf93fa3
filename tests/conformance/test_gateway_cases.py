"""The format of the cases for reverse proxies, and the verdicts on observations."""

from pathlib import Path

import msgspec
import pytest

from jissoku.conformance.case import (
    End,
    ExpectedAnswer,
    ExpectedRequest,
    GatewayCase,
    Level,
    Outcome,
    Step,
    read_gateway_cases,
)
from jissoku.conformance.exchange import GatewayObservation
from jissoku.conformance.judge import CaseVerdict, judge_gateway
from jissoku.conformance.messages import (
    MalformedMessage,
    ReceivedRequest,
    RequestReader,
    Response,
)
from jissoku.conformance.upstream import UpstreamConnection
from jissoku.errors import InputError

POST = (
    b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: 1\r\n\r\n"
)


def read(data: bytes, size: int = 1 << 20) -> RequestReader:
    reader = RequestReader()
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
    return reader


def case(
    outcome: Outcome, also: tuple[Outcome, ...] = (), level: Level = Level.MUST
) -> GatewayCase:
    return GatewayCase(
        name="made",
        clause="made",
        level=level,
        client=(Step(send="GET / HTTP/1.1\r\nHost: a\r\n\r\n"),),
        also=also,
        **msgspec.structs.asdict(outcome),
    )


def seen(
    *requests: ReceivedRequest, status: int = 200, malformed: str = "", kept: bool = True
) -> GatewayObservation:
    return GatewayObservation(
        finals=(Response(version="1.1", status=status, fields=(), body=b"ok"),),
        interims=(),
        raw=b"HTTP/1.1 200 OK\r\n\r\nok",
        end="" if kept else "fin",
        malformed="",
        is_cut=False,
        requests=requests,
        connections=(UpstreamConnection(0, malformed=malformed),),
        upstream_end=End.ANY,
        is_kept_open=kept,
    )


def test_the_built_in_cases_can_be_read() -> None:
    cases = read_gateway_cases()
    assert len(cases) > 140
    for one in cases:
        assert one.clause.startswith("RFC ")
        assert one.forwarded is not None or one.got is not None


def test_a_case_needs_something_to_send(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('title = "t"\n[[case]]\nname = "n"\nclause = "c"\n')
    with pytest.raises(InputError, match=r"a\.toml, case n: give `send` or `client`"):
        read_gateway_cases(tmp_path)


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_requests_are_read_at_every_division(size: int) -> None:
    get = b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n"
    first, second = read(POST + get, size).messages
    assert (first.body, first.trailers, first.is_complete) == (b"hi", (("X", "1"),), True)
    assert bytes(first.raw) == POST
    assert (second.target, second.is_complete) == ("/b", True)


def test_a_body_without_its_end_is_incomplete() -> None:
    (request,) = read(POST[:-8]).messages
    assert not request.is_complete


@pytest.mark.parametrize(
    "data",
    [
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nX : 1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nX: \x00\r\n\r\n",
        b"POST /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_no_proxy_may_forward_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read(data)


def test_as_expected_is_a_pass() -> None:
    wanted = Outcome(
        forwarded=(ExpectedRequest(target="/a", body="hi"),),
        got=(ExpectedAnswer(status=(200,)),),
        end=End.OPEN,
    )
    (request,) = read(POST).messages
    assert judge_gateway(case(wanted), seen(request)).verdict is CaseVerdict.PASS


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Outcome(forwarded=()), "forwards 1 request and not 0 (POST /a)"),
        (Outcome(forwarded=(ExpectedRequest(body="ho"),)), "forwards the body b'hi' and not b'ho'"),
        (Outcome(forwarded=(ExpectedRequest(lacks=("host",)),)), "forwards host: a"),
        (Outcome(forwarded=(ExpectedRequest(has=("Via",)),)), "forwards no Via"),
        (Outcome(got=(ExpectedAnswer(status=(502,)),)), "sends 200 and not 502"),
        (Outcome(got=(ExpectedAnswer(is_cut=True),)), "does not show that the response was cut"),
        (Outcome(got=(ExpectedAnswer(interim=(103,)),)), "sends no interim response before 200"),
        (Outcome(end=End.CLOSED), "keeps the client's connection open"),
    ],
)
def test_a_deviation_has_a_reason(wanted: Outcome, reason: str) -> None:
    (request,) = read(POST).messages
    found = judge_gateway(case(wanted), seen(request))
    assert (found.verdict, found.reason) == (CaseVerdict.MUST_VIOLATED, reason)


def test_another_allowed_outcome_differs() -> None:
    other = Outcome(got=(ExpectedAnswer(status=(400,)),), why="refuses it")
    found = judge_gateway(case(Outcome(got=()), (other,)), seen(status=400))
    assert (found.verdict, found.reason) == (CaseVerdict.DIFFERS, "refuses it")


def test_a_malformed_request_is_a_violation_whatever_was_expected() -> None:
    found = judge_gateway(case(Outcome()), seen(malformed="the request line reads b'x'"))
    assert found.reason == "forwards a malformed request: the request line reads b'x'"
