"""Two real load generators with one oracle: shape and counts, never times."""

from pathlib import Path

import msgspec
import pytest

from jissoku.errors import InputError
from jissoku.measure.calibration import read_cells
from jissoku.measure.cost import CostPlan, measure
from jissoku.measure.oracle import find_tool, read_tools
from jissoku.model.calibration import CostRecord, SyscallCounts, ToolPair
from jissoku.model.updated import updated
from jissoku.system import cores
from jissoku.targets.placeholders import default_cache

pytestmark = pytest.mark.race


class Silent:
    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None:
        pass

    def measured(self, pair: ToolPair) -> None:
        pass

    def counted(self, syscalls: SyscallCounts) -> None:
        pass


def test_a_pair_is_counted_by_the_oracle(tmp_path: Path) -> None:
    tools, home = read_tools(), default_cache() / "tools"
    try:
        founds = (find_tool(tools["jissoku"], home), find_tool(tools["wrk"], home))
    except InputError as error:
        pytest.skip(str(error))
    cells = read_cells()
    few = updated(cells, cell=(cells.cell[1], cells.cell[-1]), window_s=0.3)
    plan = CostPlan(
        founds=founds,
        cells=few,
        rounds=1,
        cores=cores.partition_cores(cores.available_cores()),
        folder=tmp_path,
        version="0",
    )
    record = measure(plan, Silent())
    [path] = tmp_path.iterdir()
    assert path.name == "jissoku-against-wrk-tcp.json"
    assert msgspec.json.decode(path.read_bytes(), type=CostRecord) == record
    assert record.is_finished
    for cell in few.cell:
        pair = next(it for it in reversed(record.pairs) if it.cell == cell.name)
        if pair.void.startswith("others used") or pair.void.endswith("before the window did"):
            continue  # The machine may be busy, which is not tested here.
        assert pair.void == ""
        for side in pair.sides:
            assert side.connections == cell.ask["connections"]
            assert side.answers > side.connections
            assert 0 < side.cpu_ns < pair.window_ns
    if record.calls_reason:
        assert record.calls == ()
        return
    assert [(it.cell, it.tool) for it in record.calls] == [
        (cell.name, found.tool.name) for cell in few.cell for found in founds
    ]
    for syscalls in record.calls:
        assert syscalls.void == ""
        assert syscalls.answers > 0
    ours, theirs = (it.per_answer() for it in record.calls[:2])
    # One receive and one send for each answer, however slow the tracing makes it.
    assert 1.9 < sum(ours.values()) < 4
    assert 0.9 < ours["recvfrom"] < 2
    assert sum(theirs.values()) > 1.9
