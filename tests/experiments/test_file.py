from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.measure import experiment_file
from jissoku.targets import catalogue

RIGHT = """title = "One against another"
description = "Why."

[[target]]
name = "one"
recipe = "nginx"
change = [{ config = "nginx.conf", find = "gzip on;", replace = "gzip off;" }]

[[target]]
name = "other"
recipe = "jissoku"

[[factor]]
name = "nopush"
target = "one"
[[factor.level]]
change = [{ config = "nginx.conf", find = "tcp_nopush on;", replace = "" }]

[[workload]]
name = "hello"
connections = 8

[[claim]]
name = "a"
text = "One is dearer."
test = ["cost(one) > cost(other@hello)"]

[[published]]
server = "one"
value = 5
unit = "req/s"
quantity = "rate(one+nopush)"

[[benchmark]]
name = "micro"
command = ["{python}"]
rounds = 6
"""

RECIPES = catalogue.recipes()


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_right_file_is_read(tmp_path: Path) -> None:
    found = experiment_file.read(write(tmp_path, RIGHT), RECIPES)
    assert found.name == "mine"
    assert [claim.name for claim in found.claim] == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "place", "why"),
    [
        (
            'description = "Why."',
            'description = " "',
            "line 2, key `description`",
            "must not be empty",
        ),
        ("description =", "descripton =", "key `descripton`", "is not known"),
        ('"nginx"\nchange', '"nginks"\nchange', "line 6, key `target.recipe`", "'nginks'"),
        ('"gzip on;"', '"gzap"', "line 7, key `target.change.find`", "exactly once"),
        ('name = "other"', 'name = "one"', "line 10, key `target.name`", "is there twice"),
        ('name = "other"', 'name = "a@b"', "line 10, key `target.name`", "without @"),
        (
            'target = "one"',
            'target = "two"',
            "line 15, key `factor.target`",
            "there are one, other",
        ),
        ("connections = 8", "settle_s = 1", "`workload.settle_s`", "goes with a rate"),
        ("connections = 8", "rate = 9\nsettle_s = 61", "`workload.settle_s`", "0 to 60"),
        ('"tcp_nopush on;"', '"x"', "line 14, key `factor.name`", "exactly once"),
        ("connections = 8", "connections = 0", "line 21, key `workload.connections`", "1 to"),
        ("connections = 8", 'method = "get"', "line 21, key `workload.method`", "in capital"),
        ("connections = 8", "body_size = -1", "line 21, key `workload.body_size`", "0 to 1048576"),
        (
            "connections = 8",
            "websocket = true\nkeepalive = false",
            "`workload.websocket`",
            "none of",
        ),
        ("connections = 8", 'arms = ["x"]', "line 21, key `workload.arms`", "one+nopush"),
        ("cost(one)", "cost(two)", "line 26, key `claim.test`", "'two' is not an arm of hello"),
        ("@hello", "@bye", "line 26, key `claim.test`", "'bye' is not a workload"),
        ("> cost", "cost", "line 26, key `claim.test`", "cannot be read from"),
        ('test = ["cost(one) > cost(other@hello)"]', "", "key `claim.name`", "not_testable"),
        (
            "cost(other@hello)",
            "benchmark.x(two)",
            "key `claim.test`",
            "is not a benchmark; there are micro, here",
        ),
        ("rounds = 6", "rounds = 5", "key `benchmark.rounds`", "must be 6 to 100"),
        ('name = "micro"', 'name = "here"', "key `benchmark.name`", "and not here"),
        (
            'command = ["{python}"]',
            "command = []",
            "key `benchmark.command`",
            "must name a program",
        ),
        ("rate(one+nopush)", "benchmark.x(here)", "line 32, key `published", "is a benchmark's"),
        ("rate(one+nopush)", "rate", "line 32, key `published.quantity`", "needs a target"),
    ],
)
def test_a_wrong_one_is_reported_by_line_and_key(
    tmp_path: Path, old: str, new: str, place: str, why: str
) -> None:
    assert old in RIGHT
    with pytest.raises(InputError) as refused:
        experiment_file.read(write(tmp_path, RIGHT.replace(old, new, 1)), RECIPES)
    assert place in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize("path", experiment_file.builtin_experiments(), ids=lambda path: path.stem)
def test_ours_can_be_read(path: Path) -> None:
    read = experiment_file.read(path, RECIPES)
    assert bool(read.published) is bool(read.year), "what has an original compares with it"


def test_all_are_there() -> None:
    assert {path.stem for path in experiment_file.builtin_experiments()} == {
        "app-servers",
        "delay",
        "fan-out",
        "frameworks",
        "handlers",
        "kernel-or-user",
        "parsers",
        "proxies",
        "server-cores",
        "static-tuning",
        "tail",
        "two-hosts",
        "uds-keepalive",
    }


def test_the_error_for_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"did you mean delay\? Ours are app-servers, delay"):
        experiment_file.find_experiment("dlay")
