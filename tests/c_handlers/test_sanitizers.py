"""The sanitizers of `make sanitize` find faults that are injected."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.c_handlers.conftest import SANITIZERS, SOURCES, sanitized
from tests.serving.server_process import ask

pytestmark = pytest.mark.slow


# The value of t is decoded, so that the server keeps it in memory of its own.
@pytest.mark.parametrize(
    ("name", "paths", "report"),
    [
        ("address", ["/overflow?t=%41bc"], "AddressSanitizer: heap-buffer-overflow"),
        ("address", ["/past-the-end?t=%41bc"], "AddressSanitizer: heap-buffer-overflow"),
        ("address", ["/keep?t=%41bc", "/kept"], "AddressSanitizer: heap-use-after-free"),
        ("address", ["/sum?t=%41bc"], "runtime error: signed integer overflow"),
        ("thread", ["/race", "/", "/race", "/"], "ThreadSanitizer: data race"),
    ],
)
def test_an_injected_fault_is_reported(
    tmp_path: Path, name: str, paths: list[str], report: str
) -> None:
    source = Path(shutil.copy(SOURCES / "faults.c", tmp_path))
    with sanitized(source, SANITIZERS[name], "--libs=-pthread") as (server, port):
        assert ask(port) == (200, b"0")
        # A worker ends when its fault is found.
        with suppress(OSError, EOFError):
            for path in paths:
                ask(port, path)
        line = server.wait_for(report).string
        if "faults.c:" not in line:
            server.wait_for(r"faults\.c:")
