from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Origin
from jissoku.targets import nginx_sandbox
from jissoku.targets.nginx_config import Configuration
from jissoku.targets.prepare import PreparedTarget

MAIN = Path("/etc/shop/nginx.conf")
BASE = PreparedTarget(name="nginx", origin=Origin.RECIPE, version="1.22.1")
TEXT = """user www-data;
pid /run/nginx.pid;
worker_cpu_affinity 01 10;
error_log /var/log/error.log warn;
events {}
stream { server { listen 5432; } }
http {
    access_log /var/log/access.log combined if=$loud;
    proxy_temp_path /var/tmp/proxy;
    proxy_cache_path /var/cache/shop keys_zone=shop:1m;
    upstream app { server 127.0.0.1:9000; }
    server { listen 443 ssl http2; ssl_certificate cert.pem; server_name a; }
    server { listen 80 default_server reuseport; listen [::]:80 ipv6only=on; root html; }
    server { server_name silent; location / { access_log off; } }
}
"""


def moved(text: str = TEXT) -> str:
    """The main file in the sandbox, its lines without indentation."""
    configuration = Configuration({MAIN: text})
    listen_address = nginx_sandbox.choose_listen_address(configuration)
    made = nginx_sandbox.prepared(BASE, configuration, listen_address, "/usr/share/nginx")
    return made.config[0].text


def test_what_would_touch_the_machine_is_moved() -> None:
    text = moved()
    for word in ("/run/nginx.pid", "/var/", "www-data", "cpu_affinity", "5432", "443", "[::]"):
        assert word not in text.replace("{run}", "")
    assert "pid {run}/nginx.pid;" in text
    assert "user {user} {group};" in text
    assert "daemon off;" in text
    assert "error_log stderr warn;" in text
    assert "access_log {run}/logs/access.log combined if=$loud;" in text
    assert "keys_zone=shop:1m" in text


def test_workers_are_kept_to_the_cores_that_the_lab_gives() -> None:
    assert "worker_cpu_affinity auto {mask};" in moved(TEXT.replace("01 10;", "auto;"))


def test_only_one_address_is_a_port() -> None:
    text = moved()
    assert text.count("{listen}") == 2
    assert "listen {listen} default_server reuseport;" in text
    assert "listen unix:{run}/other-0.sock ssl http2;" in text
    assert "listen unix:{run}/other-1.sock;" in text
    assert "server { \n" not in text


def test_what_it_serves_stays() -> None:
    text = moved()
    assert "root html;" in text
    assert "server 127.0.0.1:9000;" in text
    assert "access_log off;" in text
    assert 'ssl_certificate "/etc/shop/cert.pem";' in text


def test_default_logs_are_moved_too() -> None:
    text = moved("events {}\nhttp { server { return 200; } }")
    assert "access_log {run}/logs/access.log;" in text
    assert "error_log stderr;" in text
    assert "listen {listen};" in text


def test_the_first_plain_address_is_asked_or_the_one_named() -> None:
    configuration = Configuration({MAIN: TEXT})
    assert nginx_sandbox.choose_listen_address(configuration).address == "80"
    assert nginx_sandbox.choose_listen_address(configuration, "[::]:80").address == "[::]:80"
    assert nginx_sandbox.choose_listen_address(configuration, "443").is_tls
    with pytest.raises(InputError, match=r"at '8080'; there are: 443, 80, \[::\]:80"):
        nginx_sandbox.choose_listen_address(configuration, "8080")


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("server { listen 443 ssl; }", ("443", True)),
        ("server { listen 443 ssl; } server { listen 80; }", ("80", False)),
        (
            "server { listen 80; return 301 https://$host; } server { listen 443 ssl; }",
            ("443", True),
        ),
        ("server { listen 80; return 200; } server { listen 443 ssl; }", ("80", False)),
        ("server { listen 443 quic; listen 444 ssl http2; }", ("444", True)),
    ],
)
def test_plain_addresses_come_before_tls_and_redirecting_servers_last(
    servers: str, expected: tuple[str, bool]
) -> None:
    configuration = Configuration({MAIN: f"events {{}}\nhttp {{ {servers} }}"})
    found = nginx_sandbox.choose_listen_address(configuration)
    assert (found.address, found.is_tls) == expected


def test_an_address_with_quic_or_the_proxy_protocol_only_cannot_be_tuned() -> None:
    with pytest.raises(InputError, match=r"no server listens with HTTP/1\.1 over TCP"):
        moved("events {}\nhttp { server { listen 443 quic; listen 80 proxy_protocol; } }")


def test_a_hole_of_ours_in_their_text_is_refused() -> None:
    configuration = Configuration({MAIN: "http { log_format a '{port}'; }"})
    with pytest.raises(InputError, match=r"\{port\} means something here"):
        nginx_sandbox.require_http(configuration)


def test_masks_are_taken_off_again() -> None:
    text = "pid {run}/nginx.pid; location ~ a{2} { return 200; }"
    masked = nginx_sandbox.escape_placeholders(text)
    assert "{run}" not in masked
    assert nginx_sandbox.unescape_placeholders(masked) == text
