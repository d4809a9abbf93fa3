"""Reloads of a handler under load: each request has one response, of a version in service."""

import itertools
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Literal

import psutil

from tests.c_handlers.conftest import port_of, write
from tests.serving.server_process import PATIENCE_S, Client, Load, Served, ask, spawn

CC = shutil.which("cc") or "cc"
INCLUDE = Path(__file__).parents[2] / "crates" / "jissoku-handlers" / "include"

Kind = Literal["source", "shared object"]

# Counts the requests that it answers, of all versions together.
SOURCE = """
#include <jissoku.h>

static jsk_store *counts;

int jsk_start(const jsk_api *js, void **state) {
    (void)state;
    return js->store_open("counts", &counts);
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str id = js->query(r, "id");
    int64_t sum = 0;
    if (js->store_increment(counts, jsk_text("handled"), id.len > 0, 0, &sum) != 0)
        return 1;
    if (id.len == 0)
        return js->printf(r, 200, "%d %lld", VERSION, (long long)sum);
    return js->printf(r, 200, "%d %.*s %zu", VERSION, JSK_ARG(id), js->body(r).len);
}
"""


@dataclass
class Versions:
    """Which versions may answer.

    Attributes:
        reloaded: The last one whose reload is complete.
        written: The newest one.
    """

    reloaded: int = 0
    written: int = 0


class NumberedClient(Client):
    """Sends requests with a number each, which the response has to have.

    The response to a request may be that of a version that was in service when it was sent, or of a
    later one.
    """

    def __init__(
        self, where: int | Path, method: str, *, keeps_alive: bool, versions: Versions
    ) -> None:
        super().__init__(where, method, keeps_alive=keeps_alive)
        self.versions = versions

    def _exchange(self, connection: HTTPConnection) -> HTTPResponse:
        body = b"x" * 1000 if self.method == "POST" else b""
        headers = {} if self.keeps_alive else {"Connection": "close"}
        # Old workers still answer what arrives while the new ones take over.
        oldest = self.versions.reloaded - 1
        id_text = f"{id(self)}-{self.answers}"
        connection.request(self.method, f"/?id={id_text}", body=body or None, headers=headers)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, f"{response.status}: {text!r}"
        version, _, rest = text.partition(" ")
        assert rest == f"{id_text} {len(body)}", f"{text!r} to {id_text}"
        assert oldest <= int(version) <= self.versions.written, f"{text!r} after {self.versions}"
        self.answers += 1
        return response


class NumberedLoad(Load):
    """Numbered clients of every kind at each place."""

    def __init__(self, *places: int | Path, versions: Versions) -> None:
        super().__init__(*places)
        self.clients = [
            NumberedClient(one.where, one.method, keeps_alive=one.keeps_alive, versions=versions)
            for one in self.clients
        ]

    def answers(self) -> int:
        """How many requests were answered."""
        return sum(client.answers for client in self.clients)


@dataclass
class Seen:
    """What was seen of a server.

    Attributes:
        answers: Responses that clients have received, each the right one.
        handled: Requests that the handler has answered.
        memory: Bytes of the server's first process and of all, after each reload, by the number of
            workers.
        descriptors: Of its first process, likewise.
    """

    answers: int = 0
    handled: int = 0
    memory: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    descriptors: dict[int, list[int]] = field(default_factory=dict)

    def observe(self, served: Served, workers: int) -> None:
        """Measures a server when the workers before a reload have ended."""
        process = psutil.Process(served.process.pid)
        deadline = time.monotonic() + PATIENCE_S
        while len(children := process.children()) != workers:
            assert time.monotonic() < deadline, "old workers do not end"
            time.sleep(0.01)
        sizes = [one.memory_info().rss for one in (process, *children)]
        self.memory.setdefault(workers, []).append((sizes[0], sum(sizes)))
        self.descriptors.setdefault(workers, []).append(process.num_fds())


@dataclass
class Site:
    """A handler with its versions, and the configuration of its server."""

    folder: Path
    kind: Kind
    versions: Versions = field(default_factory=Versions)

    def write(self, workers: int) -> None:
        """Makes the next version."""
        self.versions.written += 1
        text = f"#define VERSION {self.versions.written}\n{SOURCE}"
        name = "handler.c" if self.kind == "source" else "handler.so"
        if self.kind == "source":
            write(self.folder, text, "handler.c")
        else:
            source, made = write(self.folder, text, "of-library.c"), self.folder / "made.so"
            flags = ["-O2", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", str(made), str(source)]
            subprocess.run([CC, *flags], check=True)
            # Workers that run the old one have its file.
            made.replace(self.folder / name)
        (self.folder / "serve.toml").write_text(
            f'workers = {workers}\nlisten = ["127.0.0.1:0", "unix:{self.folder}/site.sock"]\n'
            '[store.counts]\nsize = "1MiB"\n'
            f'[[route]]\npath = "/**"\nhandler = "{name}"\n'
        )

    @contextmanager
    def served(self) -> Iterator[tuple[Served, int]]:
        """A server of the first version, and its port."""
        self.write(2)
        cache = {"XDG_CACHE_HOME": str(self.folder / ".cache")}
        server = spawn("--config", str(self.folder / "serve.toml"), **cache)
        try:
            port = port_of(server)
            server.wait_for("^listening on unix:")
            self.versions.reloaded = self.versions.written
            yield server, port
        finally:
            server.end()


def reload_often(kind: Kind, count: int, folder: Path) -> Seen:
    """Reloads under load, with another version and another number of workers each time."""
    site, seen = Site(folder, kind), Seen()
    workers = itertools.cycle([1, 3, 2])
    with site.served() as (served, port):
        load = NumberedLoad(port, folder / "site.sock", versions=site.versions)
        with load:
            for _ in range(count):
                amount = next(workers)
                site.write(amount)
                served.reload()
                site.versions.reloaded = site.versions.written
                load.wait_for_answers()
                seen.observe(served, amount)
        version, handled = ask(port)[1].split()
        assert int(version) == site.versions.written
        seen.answers, seen.handled = load.answers(), int(handled)
    return seen
