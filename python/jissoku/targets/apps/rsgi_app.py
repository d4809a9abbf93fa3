"""The common contract as an RSGI application, for Granian's own interface (RSGI 1.5).

The folder of files is named by the environment's FILES.
"""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

Headers = list[tuple[str, str]]

FILES = Path(os.environ["FILES"])
HELLO = b"Hello, World!"

TEXT = ("content-type", "text/plain")
HELLO_HEADERS = [TEXT, ("content-length", "13")]
FORTY_TWO_HEADERS = [
    ("server", "bench"),
    ("connection", "keep-alive"),
    TEXT,
    ("content-length", "2"),
]
ABSENT_HEADERS = [TEXT, ("content-length", "9")]


async def app(scope: Any, protocol: Any) -> None:
    path = scope.path
    if scope.method != "GET":
        protocol.response_bytes(404, ABSENT_HEADERS, b"Not Found")
    elif path == "/":
        protocol.response_bytes(200, HELLO_HEADERS, HELLO)
    elif path == "/42":
        protocol.response_bytes(200, FORTY_TWO_HEADERS, b"42")
    elif path == "/delay":
        await delay(scope.query_string, protocol)
    elif path.startswith("/files/"):
        file(path.removeprefix("/files/"), protocol)
    else:
        protocol.response_bytes(404, ABSENT_HEADERS, b"Not Found")


async def delay(query: str, protocol: Any) -> None:
    ms = re.fullmatch(r"ms=(\d{1,5})", query)
    if ms is None:
        protocol.response_bytes(404, ABSENT_HEADERS, b"Not Found")
        return
    await asyncio.sleep(int(ms[1]) / 1000)
    protocol.response_bytes(200, HELLO_HEADERS, HELLO)


def file(name: str, protocol: Any) -> None:
    path = FILES / name
    if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII) or not path.is_file():
        protocol.response_bytes(404, ABSENT_HEADERS, b"Not Found")
        return
    headers = [("content-type", "application/octet-stream")]
    size = ("content-length", str(path.stat().st_size))
    protocol.response_file(200, [*headers, size], str(path))
