"""Settings as a diff of a configuration."""

from jissoku.explain import diff
from jissoku.model.explanation import SuggestedDirective

CONFIG = """\
worker_processes 1;
events {
    worker_connections 768;
}
http {
    keepalive_requests 10;
    access_log off;
}
"""


def setting(
    directive: str, value: str, block: str = "http", program: str = "nginx"
) -> SuggestedDirective:
    return SuggestedDirective(program=program, directive=directive, value=value, block=block)


def changed(*settings: SuggestedDirective) -> list[str]:
    lines = diff(CONFIG, settings, "nginx", "nginx.conf").splitlines()
    return [line for line in lines[2:] if line[:1] in "+-"]


def test_a_line_that_is_there_is_replaced() -> None:
    assert changed(setting("keepalive_requests", "100000")) == [
        "-    keepalive_requests 10;",
        "+    keepalive_requests 100000;",
    ]


def test_a_line_that_is_missing_comes_first_in_its_block() -> None:
    assert changed(setting("accept_mutex", "on", "events")) == ["+    accept_mutex on;"]
    assert changed(setting("open_file_cache", "max=9")) == ["+    open_file_cache max=9;"]
    assert changed(setting("worker_processes", "auto", "main")) == [
        "-worker_processes 1;",
        "+worker_processes auto;",
    ]


def test_a_value_that_is_a_hole_is_replaced_too() -> None:
    config = CONFIG.replace("worker_processes 1", "worker_processes {workers}")
    found = diff(config, [setting("worker_processes", "auto", "main")], "nginx", "nginx.conf")
    assert "-worker_processes {workers};\n+worker_processes auto;\n" in found


def test_what_stands_already_is_no_change() -> None:
    assert diff(CONFIG, [setting("access_log", "off")], "nginx", "nginx.conf") == ""


def test_settings_of_other_programs_are_left_out() -> None:
    other = setting("access_log", "on", program="h2o")
    assert diff(CONFIG, [other], "nginx", "nginx.conf") == ""
