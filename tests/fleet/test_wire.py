"""Messages between the lab and an agent, at every split of their bytes."""

import pytest
from hypothesis import given, strategies as st

from jissoku.errors import InputError, JissokuError, TargetEnded, TargetError
from jissoku.fleet import wire
from jissoku.fleet.wire import Frames, WireError, framed
from jissoku.model import Workload

MESSAGES = [b"", b"a", b"bc" * 40, b"\0\0\0\1"]


def test_messages_are_found_at_every_split() -> None:
    stream = b"".join(map(framed, MESSAGES))
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            frames = Frames(100)
            parts = (stream[:first], stream[first:second], stream[second:])
            assert [one for part in parts for one in frames.feed(part)] == MESSAGES


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7))
def test_messages_are_found_in_pieces_of_any_size(messages: list[bytes], size: int) -> None:
    stream, frames = b"".join(map(framed, messages)), Frames(40)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [one for piece in pieces for one in frames.feed(piece)] == messages


def test_a_message_that_is_too_long_is_refused_by_its_length_alone() -> None:
    frames = Frames(10)
    assert list(frames.feed(framed(b"x" * 10))) == [b"x" * 10]
    with pytest.raises(WireError, match="a message of 11 bytes; 10 are allowed"):
        list(frames.feed(wire.HEAD.pack(11)))
    with pytest.raises(WireError, match="4,294,967,295"):
        list(Frames(10).feed(b"\xff" * 5000))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"not a message",
        wire.encoded({"number": 1}),
        wire.encoded({"number": 1, "request": {"type": "shell", "command": "id"}}),
        wire.encoded({"number": "1", "request": {"type": "time"}}),
        b"\x91" * 3000,
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="a message that is no Numbered"):
        wire.decoded(data, wire.Numbered)


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_refused(data: bytes) -> None:
    try:
        found = wire.decoded(data, wire.Numbered)
    except WireError:
        return
    assert isinstance(found, wire.Numbered)


def test_requests_keep_their_values() -> None:
    work = Workload(path="/42", headers=(("A", "b"),), body=b"\0\xff", rate_rps=5)
    for request in (
        wire.AskTime(),
        wire.Start(prepared=1, workload=work, seed=2),
        wire.Observe(targets=(1, 2)),
        wire.EndObservation(at_ns=(1, 2**62)),
    ):
        numbered = wire.Numbered(number=7, request=request)
        assert wire.decoded(wire.encoded(numbered), wire.Numbered) == numbered


def test_a_proof_is_of_one_token_and_one_challenge() -> None:
    proof = wire.proof_of(b"token", b"nonce")
    assert wire.is_proof(b"token", b"nonce", proof)
    assert not wire.is_proof(b"other", b"nonce", proof)
    assert not wire.is_proof(b"token", b"another", proof)
    assert not wire.is_proof(b"token", b"nonce", b"")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (TargetError("nginx broke", stderr="why"), TargetError, "nginx broke"),
        (TargetEnded("nginx ended"), TargetEnded, "nginx ended"),
        (InputError("no such target"), InputError, "the agent: no such target"),
        (JissokuError("it failed"), JissokuError, "on the agent's host: it failed"),
    ],
)
def test_errors_keep_their_kind(error: JissokuError, kind: type[JissokuError], text: str) -> None:
    reply = wire.decoded(wire.encoded(wire.failure(3, error)), wire.Reply)
    found = wire.error_of(reply, "the agent")
    assert (type(found), str(found), reply.number) == (kind, text, 3)
    if isinstance(found, TargetError) and isinstance(error, TargetError):
        assert found.stderr == error.stderr
