"""Requests from files."""

from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.targets.contract import read_raw_requests

TEXT = b"GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\nconnection: keep-alive\r\nA: Connection: b\r\n\r\n"


def test_a_request_is_sent_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "plain.http"
    file.write_bytes(TEXT)
    (shape,) = read_raw_requests([file], keepalive=True)
    assert (shape.name, shape.text) == ("plain", TEXT)


def test_without_keepalive_each_request_says_that_the_connection_closes(tmp_path: Path) -> None:
    file = tmp_path / "plain.http"
    file.write_bytes(TEXT)
    (shape,) = read_raw_requests([file], keepalive=False)
    assert shape.text == (
        b"GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\nA: Connection: b\r\nConnection: close\r\n\r\n"
    )


def test_two_requests_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plain.http"
    file.write_bytes(TEXT)
    with pytest.raises(InputError, match="two files are called 'plain'"):
        read_raw_requests([file, file], keepalive=True)
