import random
import socket

import pytest

from jissoku.errors import TargetError
from jissoku.targets import address
from jissoku.targets.address import HOST, PORTS, free_port


def test_the_same_seed_finds_the_same_port() -> None:
    assert free_port(random.Random(7)) == free_port(random.Random(7))
    assert free_port(random.Random(7)) in PORTS


def test_a_port_in_use_is_passed_over() -> None:
    first = free_port(random.Random(8))
    with socket.socket() as taken:
        taken.bind((HOST, first))
        assert free_port(random.Random(8)) != first


def test_a_port_promised_to_another_target_is_passed_over() -> None:
    first = free_port(random.Random(8))
    assert free_port(random.Random(8), {first}) != first


def test_when_every_port_is_taken_we_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    only = free_port(random.Random(9))
    monkeypatch.setattr(address, "PORTS", range(only, only + 1))
    with socket.socket() as taken:
        taken.bind((HOST, only))
        with pytest.raises(TargetError, match="no free port"):
            free_port(random.Random(9))
