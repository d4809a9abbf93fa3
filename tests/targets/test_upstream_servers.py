"""Addresses of the servers that a user's configuration forwards to."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from jissoku.system.address import Address
from jissoku.targets import haproxy_config, nginx_config, nginx_sandbox, process
from jissoku.targets.placeholders import BuildPaths
from tests.targets.conftest import placed, script

NGINX = """\
events {}
http {
    upstream app {
        server 127.0.0.1:9001 weight=2;
        server unix:/run/app.sock max_fails=3;
        server [::1]:9002;
        server app.example;
    }
    server {
        listen 8080;
        location / { proxy_pass http://app; }
        location /a/ { proxy_pass http://localhost:9003/a/; }
        location /b/ { proxy_pass http://unix:/run/b.sock:/b/; }
        location /c/ { uwsgi_pass unix:/run/c.sock; }
        location /d/ { fastcgi_pass 127.0.0.1:9004; }
        location /e/ { proxy_pass https://127.0.0.1; }
        location /f/ { proxy_pass http://$host:9005; }
        location /g/ { proxy_pass http://127.0.0.1:9003; }
    }
}
"""

HAPROXY = """\
frontend www
    bind :8080
    default_backend app
backend app
    server one 127.0.0.1:9001 check
    server two unix@/run/app.sock
    server three /run/other.sock
    server four ipv4@127.0.0.1:9002
    server five [::1]:9003
    server six app.example   # has the client's port
    server-template seven 3 localhost:9004 check
    server eight "${BACKEND}:80"
    default-server inter 1s
"""


def test_nginx(tmp_path: Path) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(NGINX)
    found = nginx_sandbox.upstreams(nginx_config.read(file))
    assert found == (
        Address(port=9001),
        Address(socket="/run/app.sock"),
        Address(host="::1", port=9002),
        Address(host="app.example", port=80),
        Address(host="app", port=80),
        Address(port=9003),
        Address(socket="/run/b.sock"),
        Address(socket="/run/c.sock"),
        Address(port=9004),
        Address(port=443),
    )


def test_haproxy() -> None:
    assert haproxy_config.upstreams(HAPROXY) == (
        Address(port=9001),
        Address(socket="/run/app.sock"),
        Address(socket="/run/other.sock"),
        Address(port=9002),
        Address(host="::1", port=9003),
        Address(port=9004),
    )


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_the_processes_of_a_users_servers_are_known(
    family: str, place: BuildPaths, tmp_path: Path
) -> None:
    """This process is such a server: it listens, and is none of the lab's targets."""
    if family == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
        address = Address(port=listener.getsockname()[1])
    else:
        address = Address(socket=str(tmp_path / "app.sock"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address.socket)
        listener.listen()
    prepared = script(place, tmp_path / "proxy", "serve(listen())")
    prepared = replace(prepared, user_upstreams=(address, Address(host="192.0.2.1", port=80)))
    with process.start(prepared, placed()) as running:
        assert running.upstream_pids() == [os.getpid()]
        listener.close()
        assert running.upstream_pids() == []
