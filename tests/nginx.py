"""nginx as a peer of tests: where it is, its configuration, its process."""

import grp
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="no nginx")

CONFIGURATION = """
daemon off;
user {user} {group};
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {http}
}}
"""


@contextmanager
def running_nginx(folder: Path, http: str, *places: Path | int) -> Iterator[None]:
    """Starts nginx with one worker, waits until it accepts connections, and ends it.

    Args:
        folder: For its configuration and temporary files.
        http: What stands in the `http` block besides.
        places: Where it listens: Unix sockets, or ports on 127.0.0.1.
    """
    assert NGINX is not None, "the test needs nginx"
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, user=user, group=group, http=http))
    process = subprocess.Popen([NGINX, "-p", str(folder), "-e", "stderr", "-c", str(file)])
    try:
        for place in places:
            wait_until_accepted(place, process)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def wait_until_accepted(where: Path | int, process: subprocess.Popen[bytes]) -> None:
    """Tries to connect to a Unix socket or a port until it succeeds, while the process runs."""
    is_port = isinstance(where, int)
    while process.poll() is None:
        with socket.socket(socket.AF_INET if is_port else socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            try:
                client.connect(("127.0.0.1", where) if is_port else str(where))
            except OSError:
                continue
            return
    pytest.fail(f"it has ended with exit code {process.returncode}")
