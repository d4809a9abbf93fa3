"""No value of a form becomes anything but a known name or a bounded number."""

import shlex
from dataclasses import replace

import pytest

from jissoku.errors import InputError
from jissoku.request import from_argv, to_argv
from jissoku.ui.forms import WORD, Choices, form_values, read_form

# Of each form a value that is accepted, by field.
FORMS: dict[str, dict[str, str]] = {
    "compare": {
        "target": "go", "path": "/42", "connections": "8", "rate": "5000", "blocks": "9",
        "mode": "quick",
    },
    "run": {"experiment": "parsers", "mode": "standard"},
    "sweep": {
        "target": "go", "over": "rate", "levels": "1,2,3,4,5,6", "path": "/", "connections": "8",
        "mode": "quick",
    },
    "profile": {
        "target": "go", "path": "/", "connections": "8", "rate": "5000", "duration": "5",
    },
    "tune": {
        "target": "go", "knobs": "gc", "path": "/", "connections": "8", "rate": "5000",
        "mode": "quick",
    },
    "explain": {"target": "go", "path": "/", "connections": "8", "rate": "5000"},
    "prove": {"campaigns": "20"},
    "publish": {"run": "abc"},
}  # fmt: skip

HOSTILE = [
    "; rm -rf /", "$(id)", "`id`", "| id", "--out=/tmp/x", "-", "../../etc/passwd", "/etc/passwd",
    "<script>alert(1)</script>", "a\x00b", "\r\nX: y", "1e9", "\N{ARABIC-INDIC DIGIT ONE}",
    "x" * 10_000,
]  # fmt: skip

CHOICES = Choices(
    targets={"go"},
    experiments={"parsers"},
    knobs={"go": {"gc"}},
    folders={"abc": "runs/one"},
    roots=("runs",),
)

ALL = [(kind, field, value) for kind in FORMS for field in FORMS[kind] for value in HOSTILE]


def order(kind: str, **changes: str) -> tuple[str, ...]:
    fields = {name: [value] for name, value in (FORMS[kind] | changes).items()}
    return read_form(kind, fields, CHOICES).arguments


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_accepted_is_a_command_of_ours(kind: str) -> None:
    assert order(kind)[0] == {"prove": "self-test"}.get(kind, kind)


# Of each form a request, with options that it has fields for and others.
REQUESTS = (
    "compare go -c 8 --blocks 9 --closed-loop --no-keepalive --path /42",
    "sweep go --over rate --levels 1,2,3,4,5,60 --blocks 3 --standard --seed 4",
    "profile go -c 8 -R 5000 -d 5 -F 99 --sort total",
    "tune go --knobs gc --standard --seed 7 -H 'A: b'",
    "explain go --verify -R 5000 --probe wire --no-keepalive",
    "run parsers --standard --seed 3",
)


@pytest.mark.parametrize("line", REQUESTS)
def test_a_form_that_is_filled_in_asks_for_the_same_again(line: str) -> None:
    request = from_argv(shlex.split(line))
    kind = line.split(maxsplit=1)[0]
    found = read_form(kind, form_values(request), CHOICES)
    assert from_argv(found.arguments) == request
    # A button has the words alone.
    pressed = read_form(kind, {WORD: to_argv(request), "form_key": ["x"]}, CHOICES)
    assert from_argv(pressed.arguments) == request
    assert found.takes.low_s > 0


@pytest.mark.parametrize("kind", ["run", "tune", "explain", "prove"])
def test_a_form_without_commands_has_no_field_for_one(kind: str) -> None:
    assert order(kind, cmd="mine=true", url="mine=http://127.0.0.1/") == order(kind)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("profile go go --cmd a=b --cmd c=d", "select one target, or two"),
        ("sweep", "select at least one target"),
        ("explain", "select at least one target"),
        ("tune go --knobs gc,x", "'x' is no knob of go"),
        ("explain --url a=http://192.0.2.1/", "not on this machine"),
        ("explain go --config a.conf", "need `jissoku ui --allow-commands`"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_waits(line: str, sentence: str) -> None:
    choices = replace(CHOICES, allows_commands="--config" not in line)
    kind, *_ = line.split()
    with pytest.raises(InputError, match=sentence):
        read_form(kind, {WORD: shlex.split(line)}, choices)


@pytest.mark.parametrize(
    ("kind", "field", "value"), ALL, ids=[f"{k} {f} {v[:20]!a}" for k, f, v in ALL]
)
def test_a_hostile_value_is_refused_in_every_field(kind: str, field: str, value: str) -> None:
    with pytest.raises(InputError) as refused:
        order(kind, **{field: value})
    assert len(str(refused.value)) < 300


def test_a_command_of_the_user_is_one_argument_without_a_shell() -> None:
    allowed = Choices(targets={"go"}, experiments=(), allows_commands=True)
    found = read_form("compare", {"cmd": ["mine=./server {port}; rm -rf / --out=x"]}, allowed)
    assert "mine=./server {port}; rm -rf / --out=x" in found.arguments
    assert found.is_own, "it is shown before it starts"
    for field in ("cmd", "url"):
        with pytest.raises(InputError, match="need `jissoku ui --allow-commands`"):
            read_form("compare", {"target": ["go"], field: ["mine=x"]}, CHOICES)
