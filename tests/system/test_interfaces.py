"""What is between two addresses."""

from pathlib import Path

import pytest

from jissoku.system import interfaces
from jissoku.system.interfaces import path_kind


def test_addresses_of_one_host_are_joined_by_loopback() -> None:
    assert path_kind("127.0.0.1", "127.0.0.1") == "loopback"
    assert path_kind("10.1.2.3", "10.1.2.3") == "loopback"
    assert path_kind("2001:db8::1", "::1") == "loopback"
    assert path_kind("2001:db8::1", "2001:db8::2") == "virtual"
    assert path_kind("192.0.2.1", "192.0.2.2") == "virtual", "no interface has this address"


def test_an_interface_with_a_device_is_a_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "INTERFACES", tmp_path)
    assert interfaces._interface_of("127.0.0.1") == "lo"
    (tmp_path / "if_inet6").write_text(f"{'0' * 31}1 01 80 10 80       lo\n")
    monkeypatch.setattr(interfaces, "ADDRESSES_IPV6", tmp_path / "if_inet6")
    assert interfaces._interface_of("::1") == "lo"
    assert interfaces._interface_of("::2") == ""
    # As if the address of loopback were one of a card.
    assert path_kind("127.0.0.1", "192.0.2.1") == "virtual"
    (tmp_path / "lo" / "device").mkdir(parents=True)
    assert path_kind("127.0.0.1", "192.0.2.1") == "wire"
