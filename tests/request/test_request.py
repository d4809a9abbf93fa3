"""A request and its command line say the same, whatever is asked; no option is beside the table."""

import string
from typing import Any, get_args, get_type_hints

import click
import msgspec
import pytest
from hypothesis import given, strategies as st

from jissoku.cli.commands import jissoku as commands
from jissoku.cli.compare import compare
from jissoku.errors import InputError
from jissoku.measure.selection import recorded, workload
from jissoku.model.updated import updated
from jissoku.report import method
from jissoku.request import KINDS, AnyRequest, ComparisonRequest, SweepRequest, from_argv, to_argv
from jissoku.request.options import Option, command_line, rows
from tests.inference import factories

# What a command line can hold: no NUL.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
LINE = TEXT.map(str.strip).filter(lambda text: not set("\r\n") & set(text))
VISIBLE = st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#")
TOKEN = st.text(string.ascii_letters + string.digits + "-!#$", min_size=1, max_size=9)
FINITE = st.floats(1e-9, 1e9, allow_nan=False)
ONE_VALUE: dict[str, st.SearchStrategy[Any]] = {
    "path": st.text(VISIBLE, max_size=20).map(lambda text: f"/{text}"),
    "method": TOKEN,
    "field": st.tuples(TOKEN, LINE),
    "label": st.tuples(st.from_regex(r"[a-z][a-z0-9_-]{0,39}", fullmatch=True), TEXT),
    "rate": st.integers(1, 10**9),
    "time": FINITE,
    "percentage": st.floats(1e-9, 1, exclude_max=True),
    "objective": st.sampled_from(["p99<10ms", "p95<500us", "p99.9 < 1.5s"]),
    "levels": st.lists(st.integers(1, 10**6), min_size=1, max_size=9).map(tuple),
    "window": st.floats(0.5, 86_400),
}


def one_value(row: Option) -> st.SearchStrategy[Any]:
    """Any value that an option accepts once."""
    if isinstance(row.type, click.Choice):
        return st.sampled_from(list(row.type.choices))
    if isinstance(row.type, click.IntRange):
        return st.integers(row.type.min, row.type.max)
    return ONE_VALUE.get(getattr(row.type, "name", ""), TEXT)


@st.composite
def requests(draw: st.DrawFn) -> AnyRequest:
    """Any request of any kind; each field is as often given as it is not."""
    kind = draw(st.sampled_from(list(KINDS.values())))
    chosen: dict[str, Any] = {}
    for field, row in rows(kind):
        if isinstance(field.default, bool):
            value: Any = st.booleans()
        elif field.default == ():
            value = st.lists(one_value(row), max_size=3).map(tuple)
        elif row.words:
            value = one_value(row)
        else:
            value = TEXT.filter(bool)
        if field.required or draw(st.booleans()):
            chosen[field.name] = draw(value)
    return kind(**chosen)


@given(requests())
def test_a_command_line_and_its_request_are_inverse(request: AnyRequest) -> None:
    assert from_argv(to_argv(request)) == request


@given(requests())
def test_a_record_keeps_the_request(request: AnyRequest) -> None:
    assert msgspec.json.decode(msgspec.json.encode(request), type=AnyRequest) == request


def test_every_field_has_a_text_and_no_option_is_declared_twice() -> None:
    for kind in KINDS.values():
        words = [word for _, row in rows(kind) for word in row.words]
        assert len(words) == len(set(words))
        assert all(row.help for _, row in rows(kind) if row.words)


@pytest.mark.parametrize("verb", KINDS)
def test_a_command_has_the_options_of_its_request_and_those_of_its_output(verb: str) -> None:
    command = commands.get_command(click.Context(commands), verb)
    assert command is not None
    asked = {field.name for field, _ in rows(KINDS[verb])}
    beside = {one.name for one in command.params} - asked
    hints = get_type_hints(command.callback)
    # Hosts may be named by a file, too: the request has their addresses.
    known = [hints[name] for name in ("output", "places") if name in hints]
    places = {name for one in known for name in one.__struct_fields__}
    assert asked <= {one.name for one in command.params}
    assert beside == places, "an option that changes what is measured belongs to the request"


def test_every_kind_is_in_the_union() -> None:
    assert set(get_args(AnyRequest)) == set(KINDS.values())


def test_what_a_terminal_refuses_is_refused_in_the_same_sentence() -> None:
    with pytest.raises(InputError, match="'fast' is not a rate"):
        from_argv(["compare", "a", "-R", "fast"])
    with pytest.raises(InputError, match="No such option"):
        from_argv(["compare", "a", "--out", "x"])
    with pytest.raises(InputError, match="'fly' is not one of"):
        from_argv(["fly"])


def test_a_line_names_what_differs_from_the_defaults() -> None:
    request = ComparisonRequest(arms=("go", "x y=go"), rate=20_000, keepalive=False, quick=False)
    assert command_line(request) == (
        "jissoku compare go 'x y=go' --standard -R 20000 --no-keepalive"
    )
    assert command_line(SweepRequest(arms=("-go",), levels=(1, 2))) == (
        "jissoku sweep --levels 1,2 -- -go"
    )
    for text, seconds in [
        ("2m", 120),
        ("90", 90),
        ("1m30s", 90),
        ("1h0.5m", 3630),
        ("2min", 120),
        ("1s500ms", 1.5),
    ]:
        context = compare.make_context("compare", ["go", "--for", text])
        assert context.params["time_limit"] == seconds


def test_a_record_names_no_host_and_no_path_of_the_machine() -> None:
    request = ComparisonRequest(
        arms=("go",),
        cmd=("mine=/usr/local/bin/server --conf=/etc/mine/conf {port}",),
        url=("far=http://build-7.internal:80/42", "near=http://127.0.0.1:3000/"),
        body="@/usr/share/body.json",
        path="/usr/share/x",
    )
    kept = recorded(request)
    assert kept.cmd == ("mine=…/server --conf=…/conf {port}",)
    assert kept.url == ("far=http://HOST:80/42", "near=http://127.0.0.1:3000/")
    assert (kept.body, kept.path) == ("@…/body.json", "/usr/share/x")
    assert recorded(ComparisonRequest(body="/usr/share/x")).body == "/usr/share/x"


def test_a_report_says_how_to_repeat_the_run() -> None:
    run = factories.sliced(["a", "b"])
    assert "Repeat with" not in dict(method.machine(run))
    asked = updated(run, request=ComparisonRequest(arms=("a", "b"), closed_loop=True))
    facts = dict(method.machine(asked))
    assert facts["Repeat with"] == "jissoku compare a b --closed-loop"


def test_requests_that_share_an_option_send_the_same() -> None:
    words = ["go", "--path", "/42", "-H", "A: b", "-c", "8", "--no-keepalive", "--unix"]
    first, second = (workload(from_argv([verb, *words])) for verb in ("compare", "sweep"))
    assert first == second
    assert first.headers == (("A", "b"),)
