"""No value of a form becomes anything but a known name or a bounded number."""

import pytest

from jissoku.errors import InputError
from jissoku.ui.forms import Choices, read_form

# Of each form a value that is accepted, by field.
FORMS: dict[str, dict[str, str]] = {
    "compare": {
        "target": "go", "path": "/42", "connections": "8", "rate": "5000", "blocks": "9",
        "mode": "quick",
    },
    "run": {"experiment": "parsers", "mode": "standard"},
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
    targets={"go"}, experiments={"parsers"}, folders={"abc": "runs/one"}, roots=("runs",)
)

ALL = [(kind, field, value) for kind in FORMS for field in FORMS[kind] for value in HOSTILE]


def order(kind: str, **changes: str) -> tuple[str, ...]:
    fields = {name: [value] for name, value in (FORMS[kind] | changes).items()}
    return read_form(kind, fields, CHOICES).arguments


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_accepted_is_a_command_of_ours(kind: str) -> None:
    assert order(kind)[0] in {"compare", "run", "explain", "self-test", "publish"}


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
