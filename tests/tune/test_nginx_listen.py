"""Knobs for several workers: a listening socket and a core for each."""

from pathlib import Path

import pytest

from jissoku.targets import nginx_config, nginx_sandbox, process
from jissoku.targets.nginx_config import Configuration
from tests.tune.test_nginx_hop import FILE, KNOBS, switched, unfit

REUSEPORT = KNOBS["reuseport"]
AFFINITY = KNOBS["worker_cpu_affinity"]


def servers(*words: str) -> str:
    return " ".join(f"server {{ listen {one}; }}" for one in words)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["80"], ["80 reuseport"]),
        (["80 default_server", "80"], ["80 default_server reuseport", "80"]),
        (["80", "*:80 backlog=9"], ["80", "*:80 backlog=9 reuseport"]),
        (["0.0.0.0:80 reuseport", "80"], ["0.0.0.0:80 reuseport", "80"]),
        (["80", "81", "[::]:80"], ["80 reuseport", "81 reuseport", "[::]:80 reuseport"]),
        (["localhost", "localhost:80"], ["localhost reuseport", "localhost:80"]),
        (["unix:/a", "443 quic", "443 ssl"], ["unix:/a", "443 quic", "443 ssl reuseport"]),
    ],
)
def test_each_address_gets_it_once(before: list[str], after: list[str]) -> None:
    assert switched(servers(*before), REUSEPORT) == servers(*after)


def test_a_line_that_two_servers_include_is_left_alone(tmp_path: Path) -> None:
    main, both = tmp_path / "nginx.conf", tmp_path / "both"
    both.write_text("listen 80;\n")
    server = f"server {{ include {both}; }}"
    texts = {main: f"http {{ {server} {server} server {{ listen 81; }} }}\n", both: "listen 80;\n"}
    found = nginx_config.switch(Configuration(texts), REUSEPORT)
    assert found.texts[both] == "listen 80;\n"
    assert "listen 81 reuseport;" in found.texts[main]


@pytest.mark.parametrize("knob", [REUSEPORT, AFFINITY])
@pytest.mark.parametrize(
    ("processes", "cores", "fits"),
    [
        ("", 4, False),
        ("worker_processes 1;", 4, False),
        ("worker_processes 2;", 1, True),
        ("worker_processes auto;", 1, False),
        ("worker_processes auto;", 2, True),
        (nginx_sandbox.escape_placeholders("worker_processes {workers};"), 2, True),
    ],
)
def test_they_are_for_several_workers(knob: object, processes: str, cores: int, fits: bool) -> None:  # noqa: FBT001
    text = f"{processes} http {{ {servers('80')} }}"
    why = unfit(text, knob, cores)  # type: ignore[arg-type]
    assert why == ("" if fits else "is for several workers, and there is one")


def test_without_an_address_there_is_nothing_to_add_to() -> None:
    assert "TCP address" in unfit(
        "worker_processes 2; http { server { listen unix:/a; } }", REUSEPORT
    )


def test_a_pinning_of_somebodys_own_stays() -> None:
    text = "worker_processes 2; worker_cpu_affinity 01 10; http {}\n"
    original = Configuration({FILE: text})
    assert nginx_config.switch(original, AFFINITY) == original
    found = nginx_config.switch(Configuration({FILE: "worker_processes 2; http {}\n"}), AFFINITY)
    assert found.texts[FILE].startswith("worker_cpu_affinity auto;\n")
    kept = nginx_sandbox.within_cores(found).texts[FILE]
    assert nginx_sandbox.unescape_placeholders(kept).startswith(
        "worker_cpu_affinity auto {mask};\n"
    )


@pytest.mark.parametrize(("cores", "row"), [((0,), "1"), ((0, 1), "11"), ((3, 1), "1010")])
def test_cores_are_a_row_of_digits(cores: tuple[int, ...], row: str) -> None:
    assert process.mask(cores) == row
