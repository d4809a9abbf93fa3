"""The common contract as a WSGI application (PEP 3333), without a framework.

The folder of files is named by the environment's FILES. An application may not say Connection
(PEP 3333, "Other HTTP Features"), so in /42 that field is the server's to send.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Headers = list[tuple[str, str]]
StartResponse = Callable[[str, Headers], Any]

FILES = Path(os.environ["FILES"])
HELLO = b"Hello, World!"
TEXT = ("Content-Type", "text/plain")


def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    if environ["REQUEST_METHOD"] != "GET":
        return absent(start_response)
    if path == "/":
        return text(start_response, HELLO)
    if path == "/42":
        return forty_two(start_response)
    if path == "/delay":
        return delay(environ.get("QUERY_STRING", ""), start_response)
    if path.startswith("/files/"):
        return file(path.removeprefix("/files/"), start_response)
    return absent(start_response)


def text(start_response: StartResponse, body: bytes) -> Iterable[bytes]:
    start_response("200 OK", [TEXT, ("Content-Length", str(len(body)))])
    return [body]


def forty_two(start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Server", "bench"), TEXT, ("Content-Length", "2")])
    return [b"42"]


def absent(start_response: StartResponse) -> Iterable[bytes]:
    start_response("404 Not Found", [TEXT, ("Content-Length", "9")])
    return [b"Not Found"]


def delay(query: str, start_response: StartResponse) -> Iterable[bytes]:
    ms = re.fullmatch(r"ms=(\d{1,5})", query, re.ASCII)
    if ms is None:
        return absent(start_response)
    time.sleep(int(ms[1]) / 1000)  # the thread's, or the process's: WSGI has no other way to wait
    return text(start_response, HELLO)


def file(name: str, start_response: StartResponse) -> Iterable[bytes]:
    path = FILES / name
    if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII) or not path.is_file():
        return absent(start_response)
    body = path.read_bytes()  # at most a mebibyte
    headers = [("Content-Type", "application/octet-stream"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]
