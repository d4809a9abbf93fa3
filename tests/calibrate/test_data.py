"""The files of checks and tools refer only to names that exist."""

import re
from pathlib import Path

import msgspec
import pytest

from jissoku.errors import InputError
from jissoku.measure.calibration import read_checks, select_checks
from jissoku.measure.oracle import read_tools
from jissoku.model.calibration import CalibrationCheck, Tool

CHECKS = read_checks()
TOOLS = read_tools()
VALUES = dict.fromkeys(
    ("program", "python", "folder", "url", "host", "port", "socket", "body"), "here"
)


def test_every_check_is_there() -> None:
    numbered = {f"C{number}" for number in range(1, 29)}
    assert {check.id for check in CHECKS} == numbered | {"C11b"}
    assert [check.id for check in CHECKS][:3] == ["C1", "C2", "C3"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_figures_of_a_check_are_reported_by_some_tool(check: CalibrationCheck) -> None:
    reported = {name for tool in TOOLS.values() for name in tool.read} | {
        "exit",
        "hung",
        "raw_due_ks",
        "raw_due_lag1",
    }
    for setup in check.setup:
        for expectation in setup.expect:
            if expectation.says is not None:
                re.compile(expectation.says)
                continue
            bounds = (expectation.equals, expectation.at_least, expectation.at_most)
            assert sum(bound is not None for bound in bounds) == 1, "one truth each"
            for each in expectation.each:
                of = expectation.of.replace("{each}", each)
                for name in re.findall(r"tool\.(\w+)", of):
                    assert name in reported, f"no tool reports {name}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_set_ups_refer_backwards(check: CalibrationCheck) -> None:
    names = [setup.name for setup in check.setup]
    assert len(set(names)) == len(names)
    for number, setup in enumerate(check.setup):
        assert not setup.share_of or setup.share_of in names[:number]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_command_can_be_filled_in(tool: Tool) -> None:
    for check in CHECKS:
        for setup in check.setup:
            if tool.unsupported_reason(setup.ask) is None:
                words = tool.command(setup.ask, VALUES)
                assert words[0] == "here"
                assert not [word for word in words if "{" in word]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_tool_says_how_to_get_it(tool: Tool) -> None:
    assert tool.get.how.format(tools="folder")
    assert re.compile(tool.get.pattern).groups == 1
    assert set(tool.deviates) <= {check.id for check in CHECKS}
    for figure in tool.read.values():
        assert bool(figure.pattern) != bool(figure.path)
        re.compile(figure.pattern)


def test_a_tool_is_asked_in_its_own_words() -> None:
    ask = {"connections": 4, "rate": 1000, "duration_s": 2.5}
    hey = TOOLS["hey"].command(ask, VALUES)
    assert hey == ["here", "-c", "4", "-z", "2.5s", "-q", "250", "here"]
    once = TOOLS["ab"].command({"connections": 4, "count": 10, "one_shot": True}, VALUES)
    assert "-k" not in once
    assert "-k" in TOOLS["ab"].command({"connections": 4, "count": 10}, VALUES)


def test_what_a_tool_cannot_do_has_a_reason() -> None:
    assert "closed loop" in str(TOOLS["wrk"].unsupported_reason({"rate": 5, "duration_s": 1}))
    reason = TOOLS["vegeta"].unsupported_reason({"connections": 1, "rate": 1})
    assert reason == "vegeta requires duration_s"
    assert TOOLS["wrk"].unsupported_reason({"connections": 5, "duration_s": 1}) is None


def test_lists_of_checks_are_read() -> None:
    assert [check.id for check in select_checks(CHECKS, "c1, C6-C9")] == [
        "C1",
        "C6",
        "C7",
        "C8",
        "C9",
    ]
    assert [check.id for check in select_checks(CHECKS, "C11b")] == ["C11b"]
    for wrong in ("", "C99", "C1-", "C1-C99", "7"):
        with pytest.raises(InputError):
            select_checks(CHECKS, wrong)


def test_a_wrong_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c1.toml").write_text('id = "C1"\ntitle = "x"\nwhy = "y"\nsetups = []\n')
    with pytest.raises(InputError, match=r"c1\.toml"):
        read_checks(tmp_path)


def test_a_quick_session_fits_into_half_a_minute() -> None:
    """Checks with the same scenario share its run; a start takes less than the second estimated."""
    runs = {
        msgspec.json.encode((setup.oracle, setup.ask, setup.closed)): setup.seconds()
        for check in CHECKS
        for setup in check.variant("quick").setup
    }
    assert 7 <= len(runs) <= 9
    assert sum(runs.values()) <= 24
