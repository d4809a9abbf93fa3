"""A handler with faults: its worker is replaced, and the others lose nothing."""

import re
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.c_handlers.conftest import served, write
from tests.serving.server_process import PATIENCE_S, ask, connect

pytestmark = pytest.mark.slow

SOURCE = """
#include <jissoku.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int *volatile nowhere;

static int is(jsk_str path, const char *name) {
    return path.len == strlen(name) && memcmp(path.ptr, name, path.len) == 0;
}

static int deep(volatile char *above, int count) {
    volatile char here[4096];
    here[0] = above[0];
    return count == 0 ? here[0] : deep(here, count + 1) + here[0];
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    if (is(path, "/segfault"))
        *nowhere = 1;
    if (is(path, "/abort"))
        abort();
    if (is(path, "/exit"))
        exit(3);
    if (is(path, "/exit-well"))
        exit(0);
    if (is(path, "/recursion"))
        return deep((volatile char *)"", 1);
    while (is(path, "/hang"))
        pause();
    return js->printf(r, 200, "%d", (int)getpid());
}
"""


def send(connection: HTTPConnection, path: str = "/") -> bytes:
    """The body of a response on a connection that stays."""
    connection.request("GET", path)
    response = connection.getresponse()
    assert response.status == 200
    return response.read()


def connections_of_both_workers(port: int) -> dict[bytes, HTTPConnection]:
    """A connection of each of two workers, by the process of the worker."""
    found: dict[bytes, HTTPConnection] = {}
    others = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 2:
        assert time.monotonic() < deadline, "one worker accepts all connections"
        connection = connect(port)
        pid = send(connection)
        connection.auto_open = 0
        if pid in found:
            others.append(connection)
        else:
            found[pid] = connection
    for connection in others:
        connection.close()
    return found


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("/segfault", "signal 11"),
        ("/abort", "signal 6"),
        ("/exit", "exit code 3"),
        ("/exit-well", "exit code 0"),
        ("/recursion", "signal (6|11)"),
    ],
)
def test_a_crash_ends_one_worker_and_the_other_loses_nothing(
    tmp_path: Path, path: str, how: str
) -> None:
    with served(write(tmp_path, SOURCE), "--workers", "2") as (server, port):
        both = connections_of_both_workers(port)
        (_, crashed), (healthy_pid, healthy) = both.items()
        with pytest.raises((OSError, EOFError)):
            send(crashed, path)
        assert send(healthy) == healthy_pid
        server.wait_for(rf"^jissoku serve: worker [01] has failed .*: {how}$")
        # A function of the handler is on the stack of a crash.
        shown = any(re.search(r"\.so\(jsk_handle\+0x", line) for line in server.seen)
        assert shown == (path in {"/segfault", "/abort"})
        assert all(ask(port)[0] == 200 for _ in range(20))
        assert send(healthy) == healthy_pid
        healthy.close()
        again = connections_of_both_workers(port)
        assert healthy_pid in again
        assert set(again) != set(both)
        for connection in again.values():
            connection.close()


def test_many_crashes_do_not_end_the_server(tmp_path: Path) -> None:
    with served(write(tmp_path, SOURCE)) as (server, port):
        for _ in range(5):
            with pytest.raises((OSError, EOFError)):
                ask(port, "/exit")
            server.wait_for(r"^jissoku serve: worker 0 has failed .*: exit code 3$")
        assert ask(port)[0] == 200


def test_a_worker_that_hangs_is_replaced_and_the_other_loses_nothing(tmp_path: Path) -> None:
    arguments = ["--workers", "2", "--hang-timeout", "2s"]
    with served(write(tmp_path, SOURCE), *arguments) as (server, port):
        (_, hung), (healthy_pid, healthy) = connections_of_both_workers(port).items()
        hung.request("GET", "/hang")
        assert send(healthy) == healthy_pid
        server.wait_for("^jissoku serve: worker [01] is busy for longer than --hang-timeout")
        server.wait_for(r"\.so\(jsk_handle\+0x")
        server.wait_for(r"^jissoku serve: worker [01] has failed .*: signal 6$")
        with pytest.raises((OSError, EOFError)):
            hung.getresponse()
        assert send(healthy) == healthy_pid
        assert ask(port)[0] == 200
        healthy.close()


def test_a_worker_that_hangs_while_its_source_changes_says_where(tmp_path: Path) -> None:
    """The signal of the supervising process interrupts whichever thread of the worker."""
    source = write(tmp_path, SOURCE)
    with served(source, "--reload") as (server, port):
        hung = connect(port)
        hung.request("GET", "/hang")
        source.write_text(SOURCE.replace("/hang", "/other"))
        server.wait_for("^jissoku serve: worker 0 .* has not ended in time: it is killed$")
        server.wait_for(r"\.so\(jsk_handle\+0x")
        assert ask(port, "/hang")[0] == 200
        hung.close()


def test_a_process_that_hangs_after_its_worker_has_ended_says_where(tmp_path: Path) -> None:
    """There is no thread of the worker any more that the signal could be passed on to."""
    hang = "void never_ends(void) { for (;;) pause(); }\n"
    start = "int jsk_start(const jsk_api *js, void **s) { return atexit(never_ends); }\n"
    source = write(tmp_path, SOURCE + hang + start)
    with served(source, "--reload") as (server, port):
        assert ask(port)[0] == 200
        source.write_text(SOURCE)
        server.wait_for("^jissoku serve: worker 0 .* has not ended in time: it is killed$")
        server.wait_for(r"\.so\(never_ends\+0x")
        assert ask(port)[0] == 200


def test_a_worker_is_replaced_by_what_was_in_service(tmp_path: Path) -> None:
    """Also if the source has become invalid meanwhile, or is gone."""
    source = write(tmp_path, SOURCE)
    with served(source) as (server, port):
        for edit in (lambda: source.write_text("int x = ;"), source.unlink):
            edit()
            with pytest.raises((OSError, EOFError)):
                ask(port, "/exit")
            server.wait_for(r"^jissoku serve: worker 0 has failed .*: exit code 3$")
            assert ask(port)[0] == 200
