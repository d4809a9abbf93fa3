"""Tables, exports and records of profiles."""

import gzip
from pathlib import Path

import msgspec
import pytest

from jissoku import records
from jissoku.errors import InputError
from jissoku.inference.profile import difference, summarise
from jissoku.model import Workload
from jissoku.model.updated import updated
from jissoku.report import profile
from jissoku.report.profile import FlameGraph, profile_to_html, profile_to_json, profile_to_text
from tests.profiles import factories
from tests.profiles.factories import BURN, MAIN, SEND, TCP

FIRST = factories.profile((500, (MAIN,)), (500, (TCP, SEND, MAIN)), target="a")
SECOND = factories.profile(
    (500, (MAIN,)), (500, (TCP, SEND, MAIN)), (500, (BURN, MAIN)), target="b", us=150
)

PARENT = factories.profile((900, (BURN, MAIN)), (100, (MAIN,)))


def test_a_table_has_time_interval_share_and_name() -> None:
    text = profile_to_text([summarise(FIRST)], None)
    assert "100.0 µs of CPU time per request at /, 1,000 requests per second" in text
    lines = [line.split() for line in text.splitlines() if line.endswith("[kernel]")]
    assert [lines[0][0], lines[0][3]] == ["50.00", "50.0%"]


def test_a_rate_that_was_not_answered_is_not_claimed() -> None:
    slow = updated(FIRST, workload=Workload(rate_rps=4000))
    text = profile_to_text([summarise(slow)], None)
    assert "at /, 1,000 of 4,000 requests per second; " in text
    assert "It answered 1,000 of 4,000 requests per second: it was at its limit" in text
    assert "It answered" not in profile_to_text([summarise(FIRST)], None)
    in_work = updated(FIRST, workload=Workload(rate_rps=1005, connections=64), requests=10_000 - 64)
    assert "It answered" not in profile_to_text([summarise(in_work)], None)


def test_functions_are_sorted_by_their_own_time_or_with_callees() -> None:
    first = [
        next(line.split()[-2] for line in text.splitlines() if line.endswith("server"))
        for text in (
            profile_to_text([summarise(PARENT)], None),
            profile_to_text([summarise(PARENT)], None, "total"),
        )
    ]
    assert first == ["burn", "main"]


def test_a_function_of_few_samples_of_its_own_has_no_row() -> None:
    summary = summarise(factories.profile((995, (BURN, MAIN)), (5, (MAIN,))))
    text = profile_to_text([summary], None)
    table = text.split("\n\n")[1]
    assert "burn" in table
    assert "main" not in table
    assert table.endswith("Functions with fewer than ten samples each: 0.50 µs.")
    assert "main" in profile_to_text([summary], None, "total").split("\n\n")[1]


def test_a_tree_is_indented() -> None:
    lines = profile_to_text([summarise(PARENT)], None).splitlines()
    at = next(at for at, line in enumerate(lines) if "function below its caller" in line)
    assert [line.split()[:3] for line in lines[at + 1 : at + 3]] == [
        ["100.00", "100.0%", "10.00"],
        ["90.00", "90.0%", "90.00"],
    ]
    assert lines[at + 2].index("burn") == lines[at + 1].index("main") + 2
    assert "Callees under callers" in profile_to_html([summarise(PARENT)], None, [])


def test_few_samples_are_an_upper_end() -> None:
    both = [summarise(factories.profile((995, (MAIN,)), (5, (BURN,)))), summarise(PARENT)]
    text = profile_to_text(both, difference(*both))
    (line,) = [line for line in text.splitlines() if "+89.50" in line]
    assert "< 1.1" in line


def test_a_difference_says_what_it_explains() -> None:
    both = [summarise(FIRST), summarise(SECOND)]
    change = difference(*both)
    text = profile_to_text(both, change)
    assert "b uses 50.0 µs more CPU time per request than a." in text
    assert '"stacks"' not in profile_to_json(both, change)
    page = profile_to_html(both, change, [FlameGraph(name="f", title="t", lines="", svg="<svg/>")])
    assert "data:image/svg+xml;base64," in page
    assert "img-src data:" in page
    assert "<script" not in page
    assert page == profile_to_html(
        both, change, [FlameGraph(name="f", title="t", lines="", svg="<svg/>")]
    )


def test_collapsed_stacks_add_up_to_the_cost() -> None:
    lines = profile.collapsed(SECOND).splitlines()
    assert "server;worker;main;burn 50000000" in lines
    assert "server;worker;main;__x64_sys_sendto_[k];tcp_sendmsg_[k] 50000000" in lines
    total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    assert total == pytest.approx(150_000 * profile.SCALE, rel=1e-3)
    assert profile.collapsed_interpreted(SECOND) == ""
    difference_lines = profile.collapsed_difference(FIRST, SECOND).splitlines()
    assert "main;burn 0 50000000" in difference_lines


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Reads the wire format back: field numbers with their values."""
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            size = varint()
            found.append((key >> 3, message[at : at + size]))
            at += size
    return found


def test_pprof_refers_to_what_it_holds() -> None:
    message = [
        (field, value)
        for field, value in fields(gzip.decompress(profile.pprof(SECOND)))
        if isinstance(value, bytes)
    ]
    strings = [value.decode() for field, value in message if field == 6]
    assert strings[0] == ""
    assert {"burn", "main", "samples", "nanoseconds"} <= set(strings)
    samples = [fields(value) for field, value in message if field == 2]
    assert len(samples) == len(SECOND.samples.stacks)
    locations = {dict(fields(value))[1] for field, value in message if field == 4}
    functions = {dict(fields(value))[1] for field, value in message if field == 5}
    assert len(locations) == len(functions) == 4


def test_records_are_read_back(tmp_path: Path) -> None:
    records.write_profiles(tmp_path, [FIRST, SECOND])
    assert records.read_profiles(tmp_path) == (FIRST, SECOND)
    assert records.read_profiles(tmp_path / "nothing") == ()
    with pytest.raises(InputError, match="already"):
        records.write_profiles(tmp_path, [FIRST])
    path = tmp_path / "profiles.jsonl"
    path.write_bytes(msgspec.json.encode({"schema": "jissoku.profile/0"}))
    with pytest.raises(InputError, match=r"profile/0"):
        records.read_profiles(tmp_path)
