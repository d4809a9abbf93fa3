import shutil
import subprocess
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import ChangeKind, Knob, KnobChange
from jissoku.targets import nginx_config
from jissoku.targets.nginx_config import Configuration

PATCH = shutil.which("patch") or ""

MAIN = """# A shop.
worker_processes 1;
events { accept_mutex on; }
http {
    include mime.types;
    include sites/*;   # every shop
    keepalive_requests 10; sendfile on;
    log_format plain '$remote_addr "{;}" \\'$request\\'';
}
"""
SITE = """server {
    listen 80;
    keepalive_requests  5; # for old clients
    location ~ "^/a{2}" { return 200 "a;b}${x}"; }
    access_log /var/log/shop.log plain;
    location /b { access_log off; }
    location /c { access_log /c.log plain buffer=4k; }
}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "one").write_text(SITE)
    (tmp_path / "mime.types").write_text("types { text/html html; }\n")
    (tmp_path / "nginx.conf").write_text(MAIN)
    return tmp_path / "nginx.conf"


def sets(name: str, value: str, where: str = "http") -> Knob:
    change = KnobChange(kind=ChangeKind.DIRECTIVE, name=name, value=value, where=where)
    return Knob(name=name, why="It is tested.", counter="openat", change=(change,))


def lines_of(diff: str) -> list[str]:
    """Changed lines, without the two of each file's head."""
    signs = ("+", "-")
    return [x for x in diff.splitlines() if x.startswith(signs) and x[1:3] not in ("++", "--")]


def test_includes_are_walked_as_one_text(shop: Path) -> None:
    found = [
        ("/".join(outer.name for outer in above), directive.name)
        for above, directive in nginx_config.read(shop).walk()
    ]
    assert ("http/server/location", "return") in found
    assert ("http/types", "text/html") in found
    assert ("events", "accept_mutex") in found


def test_every_directive_stands_where_it_says(shop: Path) -> None:
    configuration = nginx_config.read(shop)
    for _, directive in configuration.walk():
        text = configuration.texts[directive.file][directive.start : directive.end]
        assert text.startswith(directive.name)
        assert text[-1] == ("}" if directive.body else ";")


def test_words_are_read_without_their_quotes(shop: Path) -> None:
    words = {d.name: d.words for _, d in nginx_config.read(shop).walk()}
    assert words["log_format"] == ("plain", "$remote_addr \"{;}\" '$request'")
    assert words["return"] == ("200", "a;b}${x}")


def test_a_directive_is_set_wherever_it_stands_and_nothing_else_changes(shop: Path) -> None:
    original = nginx_config.read(shop)
    switched = nginx_config.switch(original, sets("keepalive_requests", "1000"))
    assert lines_of(original.diff(switched)) == [
        "-    keepalive_requests 10; sendfile on;",
        "+    keepalive_requests 1000; sendfile on;",
        "-    keepalive_requests  5; # for old clients",
        "+    keepalive_requests 1000; # for old clients",
    ]


@pytest.mark.parametrize(
    ("knob", "line"),
    [
        (sets("open_file_cache", "max=10"), "+    open_file_cache max=10;"),
        (sets("pcre_jit", "on", "main"), "+pcre_jit on;"),
    ],
)
def test_a_directive_that_stands_nowhere_is_put_into_its_block(
    shop: Path, knob: Knob, line: str
) -> None:
    original = nginx_config.read(shop)
    assert lines_of(original.diff(nginx_config.switch(original, knob))) == [line]


def test_what_is_so_already_is_left_alone(shop: Path) -> None:
    original = nginx_config.read(shop)
    assert nginx_config.switch(original, sets("sendfile", "on")) == original
    assert original.diff(original) == ""


def test_words_are_added_to_logs_that_are_written_and_not_buffered(shop: Path) -> None:
    original = nginx_config.read(shop)
    change = KnobChange(kind=ChangeKind.APPEND, name="access_log", value="buffer=64k flush=1s")
    knob = Knob(name="log", why="It is tested.", counter="write", change=(change,))
    assert lines_of(original.diff(nginx_config.switch(original, knob))) == [
        "-    access_log /var/log/shop.log plain;",
        "+    access_log /var/log/shop.log plain buffer=64k flush=1s;",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("access_log /a.log;", "access_log /a.log combined buffer=64k;"),
        ("access_log /a.log plain;", "access_log /a.log plain buffer=64k;"),
        ("access_log off;", "access_log off;"),
        ("access_log syslog:server=x plain;", "access_log syslog:server=x plain;"),
    ],
)
def test_a_log_without_a_format_gets_its_default_one(text: str, wanted: str) -> None:
    change = KnobChange(kind=ChangeKind.APPEND, name="access_log", value="buffer=64k")
    knob = Knob(name="log", why="It is tested.", counter="write", change=(change,))
    file = Path("nginx.conf")
    found = nginx_config.switch(Configuration({file: f"http {{ {text} }}\n"}), knob)
    assert found.texts[file] == f"http {{ {wanted} }}\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("events {}\nhttp {}\n", "events {}\nhttp {}\n"),
        ("events { it on; }\nhttp {}\n", "events { it off; }\nhttp {}\n"),
    ],
)
def test_what_is_so_by_itself_is_not_set(text: str, wanted: str) -> None:
    file = Path("nginx.conf")
    change = KnobChange(
        kind=ChangeKind.DIRECTIVE, where="events", name="it", value="off", default="off"
    )
    knob = Knob(name="it", why="It is tested.", counter="write", change=(change,))
    assert nginx_config.switch(Configuration({file: text}), knob).texts[file] == wanted


def test_a_block_of_one_line_stays_one() -> None:
    file = Path("nginx.conf")
    change = KnobChange(kind=ChangeKind.DIRECTIVE, where="events", name="multi_accept", value="on")
    knob = Knob(name="many", why="It is tested.", counter="epoll_wait", change=(change,))
    found = nginx_config.switch(Configuration({file: "events { use epoll; }\nhttp {}\n"}), knob)
    assert found.texts[file] == "events { multi_accept on; use epoll; }\nhttp {}\n"


@pytest.mark.skipif(not PATCH, reason="there is no patch(1) here")
@pytest.mark.parametrize("end", ["\n", ""])
def test_the_diff_can_be_applied(tmp_path: Path, end: str) -> None:
    path = tmp_path / "nginx.conf"
    path.write_text(f"events {{}}\nhttp {{ sendfile off; }}{end}")
    original = nginx_config.read(path)
    switched = nginx_config.switch(original, sets("sendfile", "on"))
    subprocess.run([PATCH, "-s", str(path)], input=original.diff(switched), text=True, check=True)
    assert path.read_text() == switched.texts[path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http {\n", "unexpected end of file.*nginx.conf:1"),
        ("events {}\nhttp { sendfile; }\n", "invalid number of arguments.*nginx.conf:2"),
        ("def main():\n    '''Starts.'''\n", "is not a configuration"),
        ("include nowhere.conf;\n", "^[^\\[]*nginx.conf:1: No such file"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "nginx.conf"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        nginx_config.read(path)


def test_edits_at_one_place_keep_their_order() -> None:
    file = Path("a")
    edits = [nginx_config.Edit(file=file, start=1, end=1, text=word) for word in ("1", "2")]
    assert Configuration({file: "ab"}).edited([*edits, edits[0]]).texts[file] == "a12b"
