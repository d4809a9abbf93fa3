"""HAProxy configurations: edits of lines, and the changes that let one run in the lab."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.measure.knob_changes import target_of_haproxy_configuration
from jissoku.model import ChangeKind, Knob, KnobChange, Origin
from jissoku.system.address import free_port
from jissoku.targets import catalogue, haproxy_config
from jissoku.targets.prepare import PreparedTarget

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
KNOBS = {knob.name: knob for knob in catalogue.recipes()["haproxy"].knob}
BASE = PreparedTarget(name="haproxy", origin=Origin.RECIPE, version="2.6")

TEXT = """\
global
    log /dev/log local0 notice
    log 127.0.0.1:514 len 4096 format rfc5424 daemon
    chroot /var/lib/haproxy
    stats socket /run/haproxy/admin.sock mode 660
    stats timeout 30s
    user haproxy
    daemon
    nbthread 1

defaults
    log global
    mode http
    option http-server-close   # from an old tutorial
    timeout connect 5s
    timeout client 50s
    timeout server 50s

frontend plain
    bind *:80
    http-request redirect scheme https unless { ssl_fc }

frontend www
    bind :8080,:8081 interface lo
    bind *:443 ssl crt /etc/shop.pem alpn h2,http/1.1 tfo
    http-request deny if { path_beg "/a b # c" }
    default_backend app

peers others
    peer one 127.0.0.1:1024

backend app
    option forceclose
    server one 127.0.0.1:9001
"""


def change(name: str, value: str, where: str = "defaults", default: str = "") -> Knob:
    made = KnobChange(kind=ChangeKind.LINE, name=name, value=value, where=where, default=default)
    return Knob(name="tried", why="why", counter="connect", change=(made,))


def moved(text: str = TEXT, wanted: str = "") -> str:
    chosen = haproxy_config.choose_listen_address(Path("f"), text, wanted)
    return haproxy_config.moved(text, chosen)


def test_lines_are_replaced_wherever_proxies_have_them() -> None:
    found = haproxy_config.switch(TEXT, KNOBS["keep_alive_to_servers"])
    gone = ("option http-server-close   # from an old tutorial", "option forceclose")
    expected = TEXT
    for line in gone:
        expected = expected.replace(line, "option http-keep-alive")
    assert found == expected


def test_a_line_that_is_not_there_is_added_to_its_section() -> None:
    knob = change("http-reuse", "http-reuse always")
    assert "defaults\n    http-reuse always\n    log global\n" in haproxy_config.switch(TEXT, knob)
    again = haproxy_config.switch(haproxy_config.switch(TEXT, knob), knob)
    assert again == haproxy_config.switch(TEXT, knob)


def test_neither_a_default_nor_a_removal_adds_a_line() -> None:
    assert haproxy_config.switch(TEXT, change("maxconn", "maxconn 9", default="maxconn 9")) == TEXT
    assert haproxy_config.switch(TEXT, change("maxconn", "")) == TEXT
    assert "nbthread" not in haproxy_config.switch(TEXT, KNOBS["nbthread"])


def test_quotes_and_comments_are_no_directives() -> None:
    (deny,) = [one for one in haproxy_config.lines(TEXT) if "deny" in one.words]
    assert deny.words[-2] == "/a b # c"
    text = "defaults\n    # http-reuse never\n"
    found = haproxy_config.switch(text, change("http-reuse", "http-reuse always"))
    assert found == "defaults\n    http-reuse always\n    # http-reuse never\n"


def test_the_sandbox_has_its_own_addresses_and_leaves_the_rest() -> None:
    text = moved()
    for gone in ("chroot", "stats socket", "user haproxy", "daemon\n    nb", "peers", "*:443"):
        assert gone not in text
    assert "    bind {listen}\n" in text
    assert "    bind unix@{run}/other-0.sock\n" in text
    assert "    bind unix@{run}/other-1.sock\n" in text
    assert "    log stderr format rfc3164 local0 notice\n" in text
    assert "    log stderr format rfc3164 daemon\n" in text
    assert "server one 127.0.0.1:9001" in text
    assert "    log global\n" in text


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("", (":8080,:8081", False)), ("*:80", ("*:80", False)), ("*:443", ("*:443", True))],
)
def test_an_address_that_only_redirects_is_not_chosen(
    wanted: str, expected: tuple[str, bool]
) -> None:
    chosen = haproxy_config.choose_listen_address(Path("f"), TEXT, wanted)
    assert (chosen.address, chosen.is_tls) == expected


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(InputError, match=r"at '\*:81'; there are: \*:80, :8080,:8081, \*:443"):
        haproxy_config.choose_listen_address(Path("f"), TEXT, "*:81")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"worker_processes 1;", "is it a configuration of HAProxy"),
        (b"frontend a\n    bind :80 # \xff\n", "is not UTF-8"),
        (b"frontend a\n    bind :80\n    log-format {port}\n", r"\{port\} means something here"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused(tmp_path: Path, text: bytes, why: str) -> None:
    file = tmp_path / "haproxy.cfg"
    file.write_bytes(text)
    with pytest.raises(InputError, match=why):
        target_of_haproxy_configuration(file, BASE, tuple(KNOBS.values()))


def test_the_diff_is_that_of_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "haproxy.cfg"
    file.write_text(TEXT)
    target = target_of_haproxy_configuration(file, BASE, tuple(KNOBS.values()))
    assert {"keep_alive", "http_reuse", "log_errors_only"} <= {one.name for one in target.knobs}
    assert target.skipped["compression_level"] == "is so already"
    diff = target.diff(("keep_alive_to_servers",))
    assert diff.startswith(f"--- {file}\n+++ {file} (proven)\n")
    assert "-    option http-server-close   # from an old tutorial\n" in diff
    assert "+    option http-keep-alive\n" in diff
    assert not target.diff(())


@pytest.mark.skipif(HAPROXY is None, reason="no haproxy")
@pytest.mark.parametrize("knob", ["", *KNOBS])
def test_haproxy_accepts_what_a_knob_makes(knob: str, tmp_path: Path) -> None:
    text = TEXT.replace(" ssl crt /etc/shop.pem alpn h2,http/1.1", "").replace("*:443", "*:444")
    text = text.replace("option forceclose", "option http-server-close")
    if knob:
        text = haproxy_config.switch(text, KNOBS[knob])
    made = (
        moved(text)
        .replace("{listen}", f"127.0.0.1:{free_port(random.Random(knob))}")
        .replace("{run}", str(tmp_path))
    )
    (tmp_path / "haproxy.cfg").write_text(made)
    assert HAPROXY is not None
    command = [HAPROXY, "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
