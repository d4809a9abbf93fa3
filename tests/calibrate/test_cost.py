"""CPU time per request of a load generator: the arithmetic, with constructed logs and records."""

import io
import os
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console

from jissoku.cli.calibrate import calls_table, code, sentence, table
from jissoku.cli.frame import ExitCode
from jissoku.inference.grading import cost_result, overall
from jissoku.inference.tool_values import ENTRY, Entries, Share, Window, share
from jissoku.measure.calibration import read_cells
from jissoku.measure.cost import invalid_reason
from jissoku.measure.oracle import read_tools
from jissoku.model.calibration import (
    CostRecord,
    LoadPoint,
    SyscallCounts,
    ToolMeasurement,
    ToolPair,
)
from jissoku.model.updated import updated
from jissoku.system.processes import CpuTime, cpu_time

TOOLS = read_tools()
CELLS = read_cells()
ONE, OTHER = (LoadPoint(name=name, oracle={}, ask={"connections": 2}) for name in ("one", "other"))
WINDOW = Window(second_ns=100, start_ns=200, end_ns=300)


def side(tool: str, cpu_ns: int, answers: int = 1000, **changes: Any) -> ToolMeasurement:
    made = ToolMeasurement(
        tool=tool,
        answers=answers,
        connections=2,
        cpu_ns=cpu_ns,
        ticks=(1, 9),
        errors=0.0,
        exit_code=0,
        command="",
        report="",
    )
    return updated(made, **changes)


def pair(cell: LoadPoint, turn: int, cpu_ns: int, **changes: Any) -> ToolPair:
    """Against 10,000 ns for each answer."""
    made = ToolPair(
        cell=cell.name,
        round=turn,
        first=turn % 2,
        window_ns=1_000_000_000,
        sides=(side("mine", cpu_ns), side("yours", 10_000_000)),
        foreign=0.0,
        late_ns=0,
    )
    return updated(made, **changes)


def record(pairs: tuple[ToolPair, ...], *, is_finished: bool = True) -> CostRecord:
    figures = tuple(cost_result(it, [p for p in pairs if p.cell == it.name]) for it in (ONE, OTHER))
    return CostRecord(
        tool="mine",
        against="yours",
        versions=("1", "2"),
        jissoku="0",
        started_utc="",
        machine="",
        transport="tcp",
        rounds=2,
        window_s=1.0,
        is_finished=is_finished,
        cells=(ONE, OTHER),
        figures=figures,
        overall=overall(("one", "other"), pairs),
        pairs=pairs,
    )


def log(*rows: tuple[int, int, int]) -> Entries:
    """Connection, arrival and sending."""
    made = np.zeros(len(rows), dtype=ENTRY)
    for entry, (connection, arrival, written) in zip(made, rows, strict=True):
        entry["connection"], entry["arrival"], entry["written"] = connection, arrival, written
    return made


def test_answers_are_whose_connection_asked_first() -> None:
    entries = log(
        (0, 50, 60), (1, 60, 90), (2, 110, 120), (0, 150, 200), (1, 190, 201),
        (0, 220, 300), (2, 230, 250), (2, 251, 301), (0, 301, 0),
    )  # fmt: skip
    first, second = share(entries, WINDOW)
    assert first == Share(answers=2, connections=2, outlasted=False)
    assert second == Share(answers=1, connections=1, outlasted=True)


def test_without_requests_there_is_no_share() -> None:
    nothing = Share(answers=0, connections=0, outlasted=False)
    assert share(log(), WINDOW) == (nothing, nothing)


def test_a_figure_is_the_geometric_mean_of_pairs() -> None:
    found = cost_result(ONE, [pair(ONE, 0, 5_000_000), pair(ONE, 1, 20_000_000)])
    assert found.ratio is not None
    assert found.cost_ns is not None
    assert found.ratio.value == pytest.approx(1.0)
    assert list(found.cost_ns) == pytest.approx([10_000, 10_000])
    assert found.ratio.low < 0.5
    assert found.ratio.high > 2
    assert found.rates_rps == (1000.0, 1000.0)
    assert found.user_fractions == (0.1, 0.1)
    assert (found.pairs, found.void, found.apart) == (2, 0, 0)


def test_what_is_void_counts_nowhere() -> None:
    broken = pair(ONE, 0, 1, void="others used the cores")
    found = cost_result(ONE, [broken, pair(ONE, 0, 5_000_000), pair(ONE, 1, 5_000_000)])
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.5)
    assert (found.pairs, found.void) == (2, 1)
    alone = cost_result(ONE, [broken, pair(ONE, 1, 5_000_000)])
    assert alone.ratio is None
    assert cost_result(ONE, [broken]).cost_ns is None


def test_rates_more_than_two_percent_apart_are_stamped() -> None:
    near = (side("mine", 1, answers=1019), side("yours", 1))
    far = (side("mine", 1, answers=1021), side("yours", 1))
    assert not pair(ONE, 0, 1, sides=near).are_rates_apart
    assert pair(ONE, 0, 1, sides=far).are_rates_apart
    assert pair(ONE, 0, 1, sides=far[::-1]).are_rates_apart
    assert cost_result(ONE, [pair(ONE, 0, 1, sides=far)]).apart == 1


def test_a_round_counts_over_all_when_each_of_its_cells_does() -> None:
    pairs = [pair(ONE, turn, 4_000_000) for turn in range(3)]
    pairs += [pair(OTHER, turn, 9_000_000) for turn in range(2)]
    found = overall(("one", "other"), pairs)
    assert found is not None
    assert found.value == pytest.approx(0.6)
    assert found.blocks == 2
    assert overall(("one", "other"), pairs[:3]) is None


@pytest.mark.parametrize(
    ("changes", "seen", "word"),
    [
        ({}, {}, ""),
        ({"exit_code": None}, {}, "exited"),
        ({"errors": 3.0}, {}, "3 errors"),
        ({"errors": None}, {}, ""),
        ({}, {"connections": 1}, "used 1 connection instead of 2"),
        ({}, {"outlasted": False}, "ended before"),
    ],
)
def test_a_pair_is_void_by_either_side(
    changes: dict[str, Any], seen: dict[str, Any], word: str
) -> None:
    right = Share(answers=9, connections=2, outlasted=True)
    wrong = Share(**({"answers": 9, "connections": 2, "outlasted": True} | seen))
    sides = [side("mine", 1), side("yours", 1, **changes)]
    said = invalid_reason(sides, (right, wrong), 2, 0.0)
    assert word in said
    assert bool(said) == bool(word)
    assert "others used 5 %" in invalid_reason(
        [side("mine", 1), side("yours", 1)], (right, right), 2, 0.05
    )


def test_time_that_was_run_adds_up_over_processes() -> None:
    before = CpuTime({1: 100, 2: 50}, 3, 4)
    after = CpuTime({1: 150, 2: 60}, 4, 9) + CpuTime({3: 5}, 1, 0)
    assert after.run_ns_since(before) == 65
    assert after.ticks_since(before) == (2, 5)
    assert not after.lacks(before)
    assert CpuTime({1: 150}, 0, 0).lacks(before)


def test_our_own_time_is_what_the_kernel_says() -> None:
    me = os.getpid()
    before, clock = cpu_time({me}), os.times()
    while os.times().user + os.times().system < clock.user + clock.system + 0.05:
        pass
    # The kernel's ticks are coarse, a hundredth of a second each; it includes no other process.
    assert cpu_time({me}).run_ns_since(before) > 20_000_000
    assert cpu_time({2**22 + 1}).run_ns == {}


def test_the_code_says_whether_there_is_a_figure() -> None:
    both = tuple(pair(it, turn, 5_000_000) for it in (ONE, OTHER) for turn in range(2))
    assert code(record(both)) == ExitCode.OK
    assert code(record(both[:3])) == ExitCode.UNDECIDED
    assert code(record(both, is_finished=False)) == ExitCode.INTERRUPTED
    assert sentence(record(both)).startswith("mine costs 0.500 of yours per request (0.500 to")
    assert "Too few" in sentence(record(both[:3]))
    out = io.StringIO()
    Console(file=out, width=200).print(table(record(both)))
    for word in ("5,000", "10,000", "0.500", "(0.500 to 0.500)", "1,000 / 1,000", "10 % / 10 %"):
        assert word in out.getvalue()


def test_a_record_survives_the_disk() -> None:
    made = record((pair(ONE, 0, 5_000_000),))
    assert msgspec.json.decode(msgspec.json.encode(made), type=CostRecord) == made


@pytest.mark.parametrize("cell", CELLS.cell, ids=lambda cell: cell.name)
def test_both_generators_of_the_claim_can_be_asked_every_cell(cell: LoadPoint) -> None:
    for name in ("jissoku", "jissoku-uring", "wrk"):
        assert cell.unsupported_reason(TOOLS[name]) is None
    assert cell.options_for(TOOLS["wrk"])["threads"] == 1
    assert "threads" not in cell.options_for(TOOLS["ab"])


def test_over_unix_sockets_wrk_has_no_cell() -> None:
    for cell in CELLS.over_unix().cell:
        assert cell.unsupported_reason(TOOLS["h2load"]) is None
        assert "Unix" in (cell.unsupported_reason(TOOLS["wrk"]) or "")


def test_calls_are_reported_per_response_by_name() -> None:
    counts = {"epoll_wait": 50, "recvfrom": 1000, "sendto": 1000, "mmap": 4}
    syscalls = SyscallCounts(cell="one", tool="mine", window_ns=1, answers=1000, counts=counts)
    assert list(syscalls.per_answer()) == ["recvfrom", "sendto", "epoll_wait", "mmap"]
    void = SyscallCounts(
        cell="one", tool="yours", window_ns=0, answers=0, counts={}, void="it did not run"
    )
    assert void.per_answer() == {}
    made = updated(record(()), calls=(syscalls, void))
    assert msgspec.json.decode(msgspec.json.encode(made), type=CostRecord) == made
    out = io.StringIO()
    Console(file=out, width=200).print(calls_table(made))
    text = out.getvalue()
    assert "2.05" in text
    assert "recvfrom 1.00, sendto 1.00, epoll_wait 0.05" in text
    assert "mmap" not in text
    assert "void: it did not run" in text


def test_calls_stand_beside_the_cost() -> None:
    syscalls = tuple(
        SyscallCounts(cell=it.name, tool=tool, window_ns=1, answers=100, counts={"read": count})
        for it in (ONE, OTHER)
        for tool, count in (("mine", 300), ("yours", 600))
    )
    made = updated(record((pair(ONE, 0, 5_000_000),)), calls=syscalls)
    out = io.StringIO()
    Console(file=out, width=200).print(table(made))
    assert out.getvalue().count("3.00 / 6.00") == 2
    assert "5,000" in out.getvalue()
