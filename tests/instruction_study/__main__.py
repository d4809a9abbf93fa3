"""Instructions and system calls of a request, counted one by one.

CPU time per request differs by several percent from minute to minute on a machine that is shared,
so that one percent more is not seen in a reasonable time. The instructions of a request are the
same each time. The thread that serves is executed step by step (ptrace(2)) while a client sends
requests, one after the other on one connection.

Not seen: what the kernel does, which depends on the system calls, and how long instructions take.
Of two builds with the same system calls, one with 5 % more instructions in user space uses 1 %
more CPU time where a fifth of the time is spent there.
"""

import argparse
import bisect
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jissoku.system.processes import process_tree

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent / "python"
APPS = PACKAGE / "jissoku" / "targets" / "apps"
CASES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "cases.toml").read_text())

# Until caches of the server are filled; and to find the thread that serves.
WARMUP, PROBED = 200, 500
LIMIT_S = 60

COMPILER = shutil.which("cc") or "cc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a request takes in user space, on average."""

    instructions: float
    system_calls: float
    functions: Counter[str] = field(default_factory=Counter)


class Client:
    """Sends the same request again and again on one connection."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = f"Host: 127.0.0.1:{port}\r\nUser-Agent: study\r\nAccept: */*\r\n"
        self._request = f"GET {path} HTTP/1.1\r\n{fields}\r\n".encode()
        self._size = 0

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def ask(self, count: int = 1) -> None:
        """Sends requests; each has to be answered with 200 and the size of the first response."""
        for _ in range(count):
            self._socket.sendall(self._request)
            received = self._socket.recv(1 << 16)
            if not received.startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"no response with 200: {received[:80]!r}")
            if not self._size:
                head, _, _ = received.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
                self._size = len(head) + 4 + int(length[1] if length else 0)
            missing = self._size - len(received)
            while missing > 0:
                missing -= len(self._socket.recv(1 << 16))


@contextmanager
def serving(words: Sequence[str], package: Path, folder: Path) -> Iterator[tuple[int, int]]:
    """Starts `jissoku serve` with one worker, and yields its process and its port."""
    command = [sys.executable, "-m", "jissoku", "serve", "--workers", "1"]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(package)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if listening := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                    yield server.pid, int(listening[1])
                    return
            raise SystemExit(f"it did not start: {' '.join(words)}")
        finally:
            server.terminate()


def count(name: str, package: Path, requests: int) -> Counts:
    """Counts what a request of this case takes."""
    case = CASES[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for size, file in ((1 << 10, "1k.bin"), (1 << 20, "1m.bin")):
            (folder / file).write_bytes(bytes(size))
        places = {"{files}": str(folder), "{apps}": str(APPS)}
        if case.get("upstream"):
            behind = stack.enter_context(serving(["--fixed", "Hello, world!"], package, folder))
            places["{upstream}"] = f"127.0.0.1:{behind[1]}"
        words = [_replaced(word, places) for word in case["arguments"]]
        pid, port = stack.enter_context(serving(words, package, folder))
        client = stack.enter_context(closing(Client(port, case.get("path", "/"))))
        client.ask(WARMUP)
        process, thread = _serving_thread(pid, client)
        steps = _steps(thread, client, requests, folder)
        total = requests + 1
        return Counts(
            instructions=sum(count for _, count, _ in steps) / total,
            system_calls=sum(count for _, count, is_call in steps if is_call) / total,
            functions=_functions(process, steps, total),
        )


def _replaced(word: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        word = word.replace(name, value)
    return word


def _serving_thread(pid: int, client: Client) -> tuple[int, int]:
    """The thread that uses the most CPU time while the client is served, after its process."""

    def used() -> dict[tuple[int, int], int]:
        tasks = ((one, task) for one in process_tree(pid) for task in _tasks(one))
        return {
            (one, int(task.name)): int((task / "schedstat").read_text().split()[0])
            for one, task in tasks
        }

    before = used()
    client.ask(PROBED)
    after = used()
    return max(after, key=lambda thread: after[thread] - before.get(thread, 0))


def _tasks(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").iterdir()


def _steps(thread: int, client: Client, requests: int, folder: Path) -> list[tuple[int, int, bool]]:
    """Each address that was executed, how often, and whether it is a system call."""
    program = folder / "single_step"
    subprocess.run([COMPILER, "-O2", "-o", program, HERE / "single_step.c"], check=True)
    command = [str(program), str(thread)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stepping:
        assert stepping.stdout is not None
        if stepping.stdout.readline() != "ready\n":
            raise SystemExit("the thread cannot be traced (see ptrace_scope in proc(5))")
        client.ask(requests)
        stepping.terminate()
        time.sleep(0.1)
        client.ask()
        lines = [line.split() for line in stepping.stdout]
    if stepping.returncode:
        raise SystemExit("the thread ended while it was traced")
    return [(int(address, 16), int(count), is_call == "1") for address, count, is_call in lines]


def _functions(pid: int, steps: list[tuple[int, int, bool]], total: int) -> Counter[str]:
    """Instructions of a request by function, as far as symbols say."""
    found: Counter[str] = Counter()
    mapped = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and "x" in words[1]:
            low, high = (int(word, 16) for word in words[0].split("-"))
            mapped.append((low, high, int(words[2], 16), words[5]))
    tables: dict[str, tuple[list[int], list[str]]] = {}
    for address, count, _ in steps:
        place = next((it for it in mapped if it[0] <= address < it[1]), None)
        if place is None:
            found["?"] += count
            continue
        low, _, offset, path = place
        if path not in tables:
            tables[path] = _symbols(path)
        begins, names = tables[path]
        index = bisect.bisect_right(begins, address - low + offset) - 1
        found[names[index] if index >= 0 else Path(path).name] += count
    return Counter({name: round(count / total) for name, count in found.items()})


def _symbols(path: str) -> tuple[list[int], list[str]]:
    """Functions of a file by their offset in it, in order (nm(1) and readelf(1))."""
    if not path.startswith("/") or shutil.which("nm") is None:
        return [], []
    segments = []
    for line in _output("readelf", "-lW", path):
        words = line.split()
        if words[:1] == ["LOAD"]:
            segments.append(tuple(int(words[at], 16) for at in (1, 2, 4)))
    symbols = []
    for flags in ("-C", "-CD"):
        for line in _output("nm", flags, "--defined-only", path):
            words = line.split(None, 2)
            if len(words) == 3 and words[1] in "tTwWi":
                address = int(words[0], 16)
                for offset, begin, size in segments:
                    if begin <= address < begin + size:
                        symbols.append((address - begin + offset, words[2]))
    symbols.sort()
    return [offset for offset, _ in symbols], [name for _, name in symbols]


def _output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def main() -> None:
    """Prints a line for each case."""
    description, _, more = (__doc__ or "").partition("\n\n")
    words = argparse.ArgumentParser(
        prog="python -m tests.instruction_study", description=description, epilog=more
    )
    words.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    words.add_argument("--requests", type=int, default=200, help="requests that are counted")
    words.add_argument(
        "--package", type=Path, default=PACKAGE, help="folder with another build of the package"
    )
    words.add_argument(
        "--functions", type=int, default=0, metavar="N", help="also the N largest functions"
    )
    given = words.parse_args()
    if unknown := set(given.cases) - set(CASES):
        words.error(f"no such case: {', '.join(sorted(unknown))}")
    for name in given.cases or CASES:
        counts = count(name, given.package.resolve(), given.requests)
        sys.stdout.write(
            f"{name:16}{counts.instructions:10,.0f} instructions"
            f"{counts.system_calls:7.2f} system calls\n"
        )
        for function, instructions in counts.functions.most_common(given.functions):
            sys.stdout.write(f"{'':16}{instructions:10,}  {function}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
