"""Files as the bodies of responses, in plain text and over TLS."""

import socket
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.c_handlers.conftest import KINDS, Site, site_of
from tests.serving.server_process import PATIENCE_S

# More than the buffers of a socket hold.
LARGE = bytes(range(256)) * (1 << 16)


def target(site: Site, path: str = "/", query: str = "", file: Path | None = None) -> str:
    """The target of a request for a file, by default the large one."""
    return f"{path}?name={quote(str(file or site.folder / 'large'))}{query}"


def descriptors(site: Site) -> int:
    """How many descriptors the worker has, with that of this connection."""
    return int(site.ask("/descriptors")[1])


def wait_for_descriptors(site: Site, count: int) -> None:
    """Waits until it has no more than this."""
    deadline = time.monotonic() + PATIENCE_S
    while descriptors(site) > count:
        assert time.monotonic() < deadline


@pytest.fixture(scope="module", params=KINDS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The server, in plain text and with TLS."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "large").write_bytes(LARGE)
    with site_of("files.c", folder, request, "--libs=-pthread") as found:
        yield found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", LARGE),
        ("&start=0&size=0", b""),
        ("&start=255&size=3", LARGE[255:258]),
        (f"&start={len(LARGE) - 5}", LARGE[-5:]),
        (f"&start={len(LARGE)}", b""),
    ],
)
def test_a_range_of_a_file_is_sent_and_its_descriptor_is_closed(
    site: Site, query: str, expected: bytes
) -> None:
    before = descriptors(site)
    for path in ("/", "/thread", "/later") if query == "" else ("/", "/thread"):
        wanted = target(site, path, query)
        assert site.ask(wanted) == (200, expected, str(len(expected)))
        assert site.ask(wanted, "HEAD") == (200, b"", str(len(expected)))
    wait_for_descriptors(site, before)


def test_requests_on_one_connection_are_answered_in_order(site: Site) -> None:
    before = descriptors(site)
    connection = site.connect()
    connection.connect()
    targets = [target(site, "/", f"&start={start}&size=100000") for start in range(20)]
    requests = [f"GET {wanted} HTTP/1.1\r\nHost: h\r\n\r\n" for wanted in targets]
    connection.sock.sendall("".join(requests).encode())
    stream = connection.sock.makefile("rb")
    for start in range(20):
        head = b"".join(iter(stream.readline, b"\r\n"))
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Length: 100000\r\n" in head
        assert stream.read(100000) == LARGE[start : start + 100000]
    stream.close()
    connection.close()
    wait_for_descriptors(site, before)


def test_what_cannot_be_sent_is_refused_and_closed(site: Site) -> None:
    before = descriptors(site)
    assert site.ask(target(site, "/refused"))[:2] == (200, b"-1 -1 -1 -1 -1 -1 -1 ")
    for query in (f"&start={len(LARGE) + 1}", f"&start=1&size={len(LARGE)}", "&start=1&size=-2"):
        assert site.ask(target(site, "/", query))[0] == 416
    assert site.ask(target(site, "/", file=Path("/no/such/file")))[0] == 416
    assert site.ask(target(site, "/twice")) == (200, LARGE[:3], "3")
    assert site.ask(target(site, "/failed"))[0] == 500
    wait_for_descriptors(site, before)


def test_a_status_without_a_body_and_a_tag_that_matches_send_no_file(site: Site) -> None:
    before = descriptors(site)
    assert site.ask(target(site, "/", "&status=204")) == (204, b"", None)
    connection = site.connect()
    for _ in range(2):
        connection.request("GET", target(site), headers={"If-None-Match": '"f1"'})
        response = connection.getresponse()
        assert (response.status, response.read()) == (304, b"")
    connection.close()
    wait_for_descriptors(site, before)


def test_a_client_that_leaves_has_the_file_closed(site: Site) -> None:
    before = descriptors(site)
    for _ in range(3):
        connection = site.connect()
        connection.connect()
        connection.sock.sendall(f"GET {target(site)} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        assert connection.sock.recv(1) == b"H"
        connection.sock.shutdown(socket.SHUT_RD)
        connection.close()
    wait_for_descriptors(site, before)


def test_a_file_that_becomes_shorter_is_an_incomplete_response(site: Site) -> None:
    before = descriptors(site)
    short = site.folder / "short"
    short.write_bytes(LARGE)
    with pytest.raises((HTTPException, OSError)):
        site.ask(target(site, "/shrinks", file=short))
    wait_for_descriptors(site, before)


def released(site: Site) -> int:
    """How many bodies were released that threads had lent."""
    return int(site.ask("/released")[1])


def wait_for_released(site: Site, count: int) -> None:
    """Waits until this many were."""
    deadline = time.monotonic() + PATIENCE_S
    while released(site) != count:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("size", [0, 1, 20_000, 9_000_000])
def test_a_body_that_a_thread_lends_is_sent_and_released(site: Site, size: int) -> None:
    for method, expected in [("GET", b"o" * size), ("HEAD", b"")]:
        before = released(site)
        answer = site.ask(f"/lent?size={size}", method)
        assert answer == (200, expected, str(size))
        # With three that are refused, and a second one.
        wait_for_released(site, before + 5)


def test_what_a_thread_cannot_send_is_closed(site: Site) -> None:
    before = descriptors(site)
    for query in (f"&start={len(LARGE) + 1}", f"&start=1&size={len(LARGE)}"):
        assert site.ask(target(site, "/thread", query))[:2] == (416, b"there are fewer bytes")
    connection = site.connect()
    connection.request("GET", target(site, "/thread", "&size=3"))
    response = connection.getresponse()
    assert (response.headers["X-Thread"], response.read()) == ("yes", LARGE[:3])
    connection.close()
    wait_for_descriptors(site, before)


def test_a_body_that_is_not_needed_any_more_is_released(site: Site) -> None:
    before, count = descriptors(site), released(site)
    for wanted in ("/lent?size=5&ms=200", target(site, "/thread", "&ms=200")):
        connection = site.connect()
        connection.request("GET", wanted)
        # The request is received before the answer to another one.
        released(site)
        connection.close()
    # The three that are refused are released by both.
    wait_for_released(site, count + 8)
    wait_for_descriptors(site, before)
