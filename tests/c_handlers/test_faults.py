"""A handler with faults: its worker is replaced, and the others lose nothing."""

import re
import signal
import socket
import struct
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.c_handlers.conftest import served, write
from tests.serving.server_process import PATIENCE_S, ask, connect

pytestmark = pytest.mark.slow

END = r"^jissoku serve: the stack of a worker at its end, "

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
            send(crashed, f"{path}?key=secret")
        assert send(healthy) == healthy_pid
        server.wait_for(rf"^jissoku serve: worker [01] has failed .*: {how}$")
        ends = [line for line in server.seen if re.search(END, line)]
        exits = path.startswith("/exit")
        assert ends == ([] if exits else [f"{END[1:]}in GET {path}:"])
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
        server.wait_for(f"{END}in GET /hang:$")
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
        server.wait_for(f"{END}in GET /hang:$")
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
        server.wait_for(f"{END}on another thread than that of its requests:$")
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


ELSEWHERE = """
#include <jissoku.h>
#include <pthread.h>
#include <string.h>

static int *volatile nowhere;

static int is(jsk_str path, const char *name) {
    return path.len == strlen(name) && memcmp(path.ptr, name, path.len) == 0;
}

static int later(const jsk_api *js, jsk_request *r, void *argument) {
    *nowhere = 1;
    return js->printf(r, 200, "%p", argument);
}

static void release(void *argument) {
    *nowhere = argument != NULL;
}

static void *beside(void *argument) {
    release(argument);
    return NULL;
}

int jsk_body(const jsk_api *js, jsk_request *r, jsk_str part) {
    *nowhere = (int)part.len;
    return js->printf(r, 200, "%zu", part.len);
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    pthread_t thread;
    if (is(path, "/after"))
        return js->after(r, 1, later, NULL);
    if (is(path, "/left"))
        return js->after(r, 60000, later, NULL);
    if (is(path, "/gone"))
        return js->defer(r, 60000, release, NULL) == 0;
    if (is(path, "/late"))
        return js->defer(r, 1, release, NULL) == 0;
    if (is(path, "/beside"))
        return js->defer(r, 60000, NULL, NULL) == 0 || pthread_create(&thread, NULL, beside, NULL);
    if (is(path, "/data"))
        js->set_data(r, NULL, release);
    return js->printf(r, 200, "well");
}

void jsk_stop(const jsk_api *js, void *state) {
    *nowhere = state != NULL || js == NULL;
}
"""


def test_a_crash_names_the_request_for_which_a_function_is_called(tmp_path: Path) -> None:
    source = write(tmp_path, ELSEWHERE)
    with served(source, "--libs=-lpthread", "--stop-window", "0s") as (server, port):
        for method, path in [
            ("GET", "/after"),
            ("GET", "/left"),
            ("GET", "/gone"),
            ("GET", "/late"),
            ("GET", "/data"),
            ("POST", "/body"),
            ("GET", "/beside"),
        ]:
            client = connect(port)
            client.request(method, path, body=b"x" if method == "POST" else None)
            if path in {"/left", "/gone"}:
                # Received before: the worker has one thread.
                assert ask(port) == (200, b"well")
                # A reset: a client that only ends what it sends may still read.
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
            where = f"in {method} {path}"
            if path == "/beside":
                where = "on another thread than that of its requests"
            server.wait_for(f"{END}{where}:$")
            server.wait_for("^jissoku serve: worker 0 has failed .*: signal 11$")
            client.close()
            assert ask(port) == (200, b"well")
        server.send_signal(signal.SIGTERM)
        server.wait_for(rf"{END}in jsk_stop of {source}:$")
