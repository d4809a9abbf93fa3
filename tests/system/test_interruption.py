"""Ctrl-C while one interruption is entered within another."""

import os
import signal

import pytest

from jissoku.system.interruption import Interrupted, Interruption

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def send(number: int) -> None:
    """The handler has run when this returns: Python runs it before the next instruction."""
    os.kill(os.getpid(), number)


@SIGNALS
def test_a_signal_before_the_inner_one_is_entered_reaches_it(number: int) -> None:
    with Interruption() as outer:
        send(number)
        with Interruption() as inner:
            assert outer.asked
            with pytest.raises(Interrupted):
                inner.check()


@SIGNALS
def test_a_signal_to_the_inner_one_reaches_the_outer_ones(number: int) -> None:
    with Interruption() as first, Interruption() as second:
        with Interruption() as third:
            send(number)
        with pytest.raises(Interrupted):
            second.check()
        assert (first.asked, third.asked) == (True, True)


def test_a_signal_after_its_end_does_not_reach_it() -> None:
    with Interruption() as outer:
        with Interruption() as inner:
            pass
        send(signal.SIGINT)
        assert (outer.asked, inner.asked) == (True, False)
