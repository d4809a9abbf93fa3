"""Configurations of nginx: what they become is understood, and serves the same."""

import shutil
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jissoku import _native
from jissoku.cli.commands import jissoku
from tests.migrate.test_migrate import answers, listening
from tests.serving.server_process import spawn

SITE = r"""
upstream shop { server 127.0.0.1:9001 weight=2; server 127.0.0.1:9002 max_fails=3; keepalive 16; }
server {
    listen 8080 default_server;
    listen [::]:8080;
    server_name example.org;
    root /srv/www;
    client_max_body_size 20m;
    keepalive_timeout 30;
    access_log /var/log/a.log combined;
    gzip on;
    location /api/ {
        proxy_pass http://shop/v2/;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header Host $host;
        proxy_set_header X-Id $request_id;
    }
    location /static/ { alias /srv/static/; }
    location = /health { return 200 "up"; }
    location ~ \.php$ { fastcgi_pass unix:/run/php.sock; }
    location /app { proxy_pass http://127.0.0.1:8001; client_max_body_size 1g; }
}
server {
    server_name .example.net;
    location / { uwsgi_pass unix:/run/app.sock; }
    location /old { return 301 /new; }
    location /other { return 301 /$1; }
    location /tls/ { proxy_pass https://127.0.0.2/; }
}
"""


def migrated(folder: Path, text: str) -> Result:
    file = folder / "site.conf"
    file.write_text(text)
    return CliRunner().invoke(jissoku, ["migrate", f"nginx -c {file}"])


def test_servers_and_locations_become_routes(tmp_path: Path) -> None:
    result = migrated(tmp_path, SITE)
    output = result.stderr
    (tmp_path / "serve.toml").write_text(result.stdout)
    found: dict[str, Any] = tomllib.loads(result.stdout)
    assert "to start it, with this as serve.toml:\n  jissoku serve --config serve.toml\n" in output
    assert found["listen"] == ["0.0.0.0:8080", "[::]:8080"]
    assert found["body-size-max"] == "20MiB"
    assert (found["idle-time-max"], found["access-log"]) == ("30s", "/var/log/a.log")
    assert found["upstream"] == {
        "shop": {"servers": [{"at": "127.0.0.1:9001", "weight": 2}, "127.0.0.1:9002"]},
        "127-0-0-1-8001": {"servers": ["127.0.0.1:8001"]},
        "127-0-0-2": {"servers": ["127.0.0.2:443"], "protocol": "https"},
        "unix-run-app-sock": {"servers": ["unix:/run/app.sock"], "protocol": "uwsgi"},
    }
    uwsgi = {"path": "/**", "to": "unix-run-app-sock"}
    old = {"path": "/old/**", "redirect": "/new", "redirect-status": 301}
    tls = {"path": "/tls/**", "to": "127-0-0-2", "strip-prefix": "/tls"}
    assert found["route"] == [
        {"host": "*.example.net", **old},
        {"host": "*.example.net", **tls},
        {"host": "example.net", **old},
        {"host": "example.net", **tls},
        {"host": "*.example.net", **uwsgi},
        {"host": "example.net", **uwsgi},
        {"path": "/health", "fixed": "up"},
        {"path": "/static/**", "folder": "/srv/static/", "strip-prefix": "/static"},
        {
            "path": "/api/**",
            "to": "shop",
            "strip-prefix": "/api",
            "add-prefix": "/v2",
            "request-field": ["X-Real-IP: {client}"],
        },
        {"path": "/app/**", "to": "127-0-0-1-8001", "body-size-max": "1GiB"},
        {"path": "/**", "folder": "/srv/www"},
    ]
    absent = output.partition("no counterpart:\n")[2]
    for part in ("line 2, server 127.0.0.1:9002 max_fails=3", "gzip on", "X-Id", "~", "/$1"):
        assert part in absent, output
    assert ": servers get the Host of the client" in output
    words = ["--config", str(tmp_path / "serve.toml"), "--print-config"]
    assert _native.run(["jissoku", "serve", *words]) == 0


def test_a_server_that_redirects_is_a_route_for_all_paths(tmp_path: Path) -> None:
    text = (
        "server { listen 80; server_name a.org; return 301 https://$host$request_uri;"
        " location /x/ { root /never; } }"
        "server { listen 443 ssl; server_name a.org; root /srv; ssl_certificate /c;"
        " ssl_certificate_key /k; }"
    )
    result = migrated(tmp_path, text)
    found = tomllib.loads(result.stdout)
    redirect = {"redirect": "https://{hostname}{target}", "redirect-status": 301}
    assert found["listen"] == ["0.0.0.0:80,plain", "0.0.0.0:443"]
    assert found["route"] == [
        {"host": "a.org", "path": "/**", "scheme": "http", **redirect},
        {"path": "/**", "scheme": "http", **redirect},
        {"path": "/**", "scheme": "https", "folder": "/srv"},
    ]
    assert "no counterpart" not in result.stderr
    (tmp_path / "serve.toml").write_text(result.stdout)
    words = ["--config", str(tmp_path / "serve.toml"), "--print-config"]
    assert _native.run(["jissoku", "serve", *words]) == 0


FILES = r"""
upstream shop {
    server 127.0.0.1:9001; server 127.0.0.1:9002 backup; server 127.0.0.1:9003 down weight=3;
}
server {
    listen 8080;
    root /srv/www;
    location / { try_files $uri $uri/ /index.html; }
    location /assets/ { expires 30d; }
    location ~* \.(?:css|js)$ { expires max; access_log off; }
    location /docs/ { alias /srv/docs/; try_files $uri $uri.html =404; expires epoch; }
    location /api/ {
        proxy_pass http://shop;
        proxy_hide_header X-Powered-By;
        proxy_hide_header X-Runtime;
        proxy_set_header X-Via nginx;
    }
    location /old/ { try_files $uri @old; }
    location @old { proxy_pass http://shop; }
    add_header X-A b;
}
"""


def test_pages_for_other_paths_and_the_life_of_files(tmp_path: Path) -> None:
    result = migrated(tmp_path, FILES)
    found: dict[str, Any] = tomllib.loads(result.stdout)
    assert (found["spa"], found["clean-urls"]) == (True, True)
    assert found["cache-control"] == [
        "*.css=max-age=315360000",
        "*.js=max-age=315360000",
        "assets/**=max-age=2592000",
    ]
    assert found["upstream"]["shop"] == {"servers": ["127.0.0.1:9001"]}
    assert [one for one in found["route"] if one["path"] == "/api/**"] == [
        {
            "path": "/api/**",
            "to": "shop",
            "request-field": ["X-Via: nginx"],
            "response-field": ["-X-Powered-By", "-X-Runtime"],
        }
    ]
    differs, _, absent = result.stderr.partition("no counterpart:\n")
    for part in ("9002 backup: it is left out", "9003 down: it is left out", "spa is for all"):
        assert part in differs
    lines = [line.partition(": ")[0].strip() for line in absent.splitlines()]
    assert sorted(lines) == [
        "line 11, expires epoch",
        "line 18, try_files $uri @old",
        "line 19, location @old",
        "line 20, add_header X-A b",
    ]
    (tmp_path / "serve.toml").write_text(result.stdout)
    words = ["--config", str(tmp_path / "serve.toml"), "--print-config"]
    assert _native.run(["jissoku", "serve", *words]) == 0


def test_the_life_of_files_in_the_only_folder(tmp_path: Path) -> None:
    text = (
        "server { location / { proxy_pass http://127.0.0.1:1; expires 1h; }"
        " location /static/ { alias /srv/static/; expires 30d; } }"
    )
    result = migrated(tmp_path, text)
    assert tomllib.loads(result.stdout)["cache-control"] == ["**=max-age=2592000"]
    assert 'expires 1h: response-field = ["Cache-Control: VALUE"]' in result.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # One server for both.
        ("server { listen 80; listen 443 ssl; server_name a.org; root /a; }", [("", "", "/a")]),
        (
            (
                "server { listen 80; server_name a.org; root /a; }\n"
                "server { listen 443 ssl; server_name a.org; root /b; }"
            ),
            [("", "http", "/a"), ("", "https", "/b")],
        ),
        (
            # Only the second is for a.org, and only with TLS.
            (
                "server { listen 80; root /a; } server { listen 443 ssl; root /b; }\n"
                "server { listen 443 ssl; server_name a.org; root /c; }"
            ),
            [("a.org", "https", "/c"), ("", "http", "/a"), ("", "https", "/b")],
        ),
        (
            (
                "server { listen 443 ssl; server_name a.org; root /a; }\n"
                "server { listen 443 ssl default_server; server_name b.org; root /b; }"
            ),
            [("a.org", "", "/a"), ("", "", "/b")],
        ),
    ],
)
def test_unknown_hosts_get_the_default_server(
    text: str, expected: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    found = tomllib.loads(migrated(tmp_path, text).stdout)["route"]
    routes = [(one.get("host", ""), one.get("scheme", ""), one["folder"]) for one in found]
    assert routes == expected


def test_a_listener_for_http3_is_no_listener(tmp_path: Path) -> None:
    text = "server { listen 443 quic; listen 443 ssl; root /a; } server { listen 80; root /b; }"
    result = migrated(tmp_path, text)
    assert 'listen = ["0.0.0.0:443", "0.0.0.0:80"]' in result.stdout
    assert "listen 443 quic: connections speak HTTP/1.1" in result.stderr


def test_other_options_of_nginx_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("server { root /a; }")
    line = f"nginx -p /srv -g 'daemon off;' -c {tmp_path}/a.conf -q"
    assert 'folder = "/a"' in CliRunner().invoke(jissoku, ["migrate", line]).stdout


def test_an_error_of_the_file_is_named(tmp_path: Path) -> None:
    assert "line 1" in str(migrated(tmp_path, "server {").exception)
    failed = CliRunner().invoke(jissoku, ["migrate", "nginx"])
    assert str(failed.exception) == "write nginx -c FILE"


PLAIN = """
{head}
server {{
    listen 127.0.0.1:{port};
    root {folder};
    location /echo/ {{ proxy_pass http://127.0.0.1:{behind}/; proxy_set_header Host $host; }}
    location = /none {{ return 200 "none"; }}
    location /d {{ root {folder}; }}
}}
{tail}
"""


@pytest.mark.slow
def test_ours_answers_as_nginx(tmp_path: Path) -> None:
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("no nginx")
    (tmp_path / "www" / "d").mkdir(parents=True)
    (tmp_path / "www" / "index.html").write_text("index")
    (tmp_path / "www" / "d" / "page.txt").write_text("page")
    targets = ["/", "/d/page.txt", "/echo/x?y=1", "/none", "/missing", "/d/missing"]
    requests = [("GET", target, None) for target in targets]
    behind = spawn("--fixed", "behind", "--listen", "127.0.0.1:0")
    try:
        port_behind = behind.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1]
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        head = f"user root; pid {tmp_path}/pid; error_log {tmp_path}/errors; daemon off;"
        head += " events {} http {"
        head += (
            f" access_log off; types {{ text/html html; text/plain txt; }} {temporary(tmp_path)}"
        )
        values = {"port": port, "folder": tmp_path / "www", "behind": port_behind}
        (tmp_path / "nginx.conf").write_text(PLAIN.format(head=head, tail="}", **values))
        command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        with listening(command, port, tmp_path):
            expected = [(one[0], one[3]) for one in answers(port, requests)]
        found = migrated(tmp_path, PLAIN.format(head="", tail="", **values))
        (tmp_path / "serve.toml").write_text(found.stdout)
        served = spawn("--config", str(tmp_path / "serve.toml"))
        try:
            served.wait_for(rf"listening on http://127\.0\.0\.1:{port}/")
            ours = [(one[0], one[3]) for one in answers(port, requests)]
        finally:
            served.end()
    finally:
        behind.end()
    assert [status for status, _ in ours] == [status for status, _ in expected]
    assert [one for one in ours if one[0] == 200] == [one for one in expected if one[0] == 200]


def temporary(folder: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
