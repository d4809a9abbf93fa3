"""Keep-alive to upstream blocks: the necessary changes, and unchanged settings."""

from pathlib import Path

import pytest

from jissoku.model import Knob
from jissoku.targets import catalogue, nginx_config
from jissoku.targets.nginx_config import Configuration
from tests.tune.test_nginx_config import lines_of

FILE = Path("nginx.conf")
KNOBS = {knob.name: knob for knob in catalogue.recipes()["nginx"].knob}
HOP = KNOBS["upstream_keepalive"]

UPSTREAM = "upstream app { server 127.0.0.1:9; }"
KEPT = "upstream app { server 127.0.0.1:9; keepalive 64; }"
EMPTY = 'proxy_set_header Connection "";'
VERSION = "proxy_http_version 1.1;"


def switched(text: str, knob: Knob = HOP) -> str:
    """What becomes of an http block that holds this."""
    configuration = Configuration({FILE: f"http {{ {text} }}\n"})
    once = nginx_config.switch(configuration, knob)
    assert nginx_config.switch(once, knob) == once, "a second time changes something"
    return once.texts[FILE].removeprefix("http { ").removesuffix(" }\n")


def unfit(text: str, knob: Knob = HOP, cores: int = 2) -> str:
    return nginx_config.unfit(Configuration({FILE: text}), knob, cores)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("proxy_pass http://app;", f"{EMPTY} {VERSION} proxy_pass http://app;"),
        ("proxy_pass http://app/x;", f"{EMPTY} {VERSION} proxy_pass http://app/x;"),
        (f"{VERSION} proxy_pass http://app;", f"{EMPTY} {VERSION} proxy_pass http://app;"),
        (
            "proxy_http_version 1.0; proxy_pass http://app;",
            f"{EMPTY} {VERSION} proxy_pass http://app;",
        ),
        (
            "proxy_set_header connection close; proxy_pass http://app;",
            f"{VERSION} {EMPTY} proxy_pass http://app;",
        ),
        (
            "proxy_set_header Host h; proxy_pass http://app;",
            f"{EMPTY} {VERSION} proxy_set_header Host h; proxy_pass http://app;",
        ),
    ],
)
def test_all_that_it_takes_is_set_together(before: str, after: str) -> None:
    found = switched(f"{UPSTREAM} server {{ location / {{ {before} }} }}")
    assert found == f"{KEPT} server {{ location / {{ {after} }} }}"


@pytest.mark.parametrize(
    ("name", "without", "with_it"),
    [
        ("gzip_min_length", "http { gzip off; }", "http { server { gzip on; } }"),
        ("gzip_comp_level", "http { gzip_comp_level 9; }", "http { gzip on; gzip_comp_level 9; }"),
        ("output_buffers", "http { sendfile on; }", "http { location / { sendfile off; } }"),
        ("brotli_comp_level", "http { gzip on; }", "http { brotli on; brotli_comp_level 11; }"),
        ("ssl_session_cache", "http { ssl_protocols TLSv1.3; }", "http { ssl_certificate a.crt; }"),
    ],
)
def test_a_knob_is_left_out_where_what_it_needs_is_not_set(
    name: str, without: str, with_it: str
) -> None:
    assert "which is not set" in unfit(without, KNOBS[name])
    assert unfit(with_it, KNOBS[name]) == ""


def test_fields_of_an_outer_block_are_not_hidden() -> None:
    inner = "location / { proxy_pass http://app; }"
    found = switched(f"{UPSTREAM} server {{ proxy_set_header Host h; {inner} }}")
    location = f"location / {{ {VERSION} proxy_pass http://app; }}"
    assert found == f"{KEPT} server {{ {EMPTY} proxy_set_header Host h; {location} }}"


def test_a_condition_is_no_place_to_set_anything() -> None:
    inner = "if ($arg_a) { proxy_pass http://app; }"
    found = switched(f"{UPSTREAM} server {{ location / {{ {inner} }} }}")
    assert found == f"{KEPT} server {{ location / {{ {EMPTY} {VERSION} {inner} }} }}"


def test_explicit_settings_are_not_changed() -> None:
    text = "proxy_set_header Connection $connection_upgrade; proxy_pass http://app;"
    whole = f"{UPSTREAM} server {{ location / {{ {text} }} }}"
    assert switched(whole) == whole
    kept = "upstream app { server 127.0.0.1:9; keepalive 8; }"
    whole = f"{kept} server {{ location / {{ {VERSION} {EMPTY} proxy_pass http://app; }} }}"
    assert switched(whole) == whole


@pytest.mark.parametrize("passed", ["http://127.0.0.1:9", "http://$app", "http://other"])
def test_only_requests_to_an_upstream_block_are_meant(passed: str) -> None:
    text = f"http {{ {UPSTREAM} server {{ location / {{ proxy_pass {passed}; }} }} }}"
    assert "upstream block" in unfit(text)
    assert not unfit(text.replace(passed, "http://app"))


def test_it_stands_behind_the_method_and_comments_stay() -> None:
    text = """http {
    upstream app {
        least_conn;
        server a;  # the first
    }
    server { location / { proxy_pass http://app; } }
}
"""
    original = Configuration({FILE: text})
    assert lines_of(original.diff(nginx_config.switch(original, HOP))) == [
        "+        keepalive 64;",
        "-    server { location / { proxy_pass http://app; } }",
        f"+    server {{ location / {{ {EMPTY} {VERSION} proxy_pass http://app; }} }}",
    ]


def test_included_fields_count_and_their_file_stays(tmp_path: Path) -> None:
    (tmp_path / "params").write_text("proxy_set_header Host h;\n")
    main = tmp_path / "nginx.conf"
    location = "location / { include params; proxy_pass http://app; }"
    main.write_text(f"events {{}}\nhttp {{ {UPSTREAM} server {{ {location} }} }}\n")
    original = nginx_config.read(main)
    found = nginx_config.switch(original, HOP)
    assert f"location / {{ {EMPTY} {VERSION} include params;" in found.texts[main]
    assert found.texts[tmp_path / "params"] == "proxy_set_header Host h;\n"
