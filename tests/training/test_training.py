"""The counts by which the compiler optimises belong to what it compiles; and can be made anew."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from jissoku import _native, inference, records
from jissoku.model import Metric
from tests.training.__main__ import COUNTS, HERE, PACKAGES, ROOT, Training, make_places, run_cases

RECORDS = ROOT / "records" / "counts"
DECISION = ROOT / "docs" / "decisions" / "0080-counts-for-the-compiler.md"

# Crates through which a request runs, or that send them.
CRATES = ("apps", "handlers", "http", "load", "proxy", "server", "store", "tls")

# Of the functions of a crate that are not inlined, some are executed in training; none, if the
# crate's version, the compiler or the profile has changed, and with it the names of all.
SHARE_MIN = 0.05


# The table of the connections of one kind of handler and driver, which is dropped with a server.
TABLE = re.compile(
    r"drop_in_place\$LT\$jissoku_os\.\.slab\.\.Slab.*\.\.driver\.\.(\w+)\.\.slot.*Transport\$LT\$(.*?)\$GT"
)
NOT_SERVED = ("FaultyHandler", "MetricsPage")  # injects faults; is asked once in seconds


@pytest.fixture(scope="module")
def functions() -> list[str]:
    """The names of the functions of this build."""
    nm = shutil.which("nm")
    if "release" not in _native.__build__ or nm is None:
        pytest.skip("it needs the build of `make build`, and nm")
    assert _native.__file__ is not None
    lines = subprocess.check_output([nm, _native.__file__], text=True).splitlines()
    words = [line.split() for line in lines]
    return [found[2] for found in words if len(found) == 3 and found[1] in "tT"]


@pytest.mark.parametrize("crate", CRATES)
def test_the_counts_name_functions_of_this_build(crate: str, functions: list[str]) -> None:
    name = f"jissoku_{crate}"
    ours = [symbol for symbol in functions if f"{len(name)}{name}" in symbol]
    counts = COUNTS.read_bytes()
    known = [symbol for symbol in ours if symbol.encode() in counts]
    assert len(known) >= SHARE_MIN * len(ours) > 0, "`make training` makes them anew"


def test_each_kind_of_handler_was_counted_with_each_driver(functions: list[str]) -> None:
    """One that no case serves would be compiled as if it were never used."""
    counts = COUNTS.read_bytes()
    tables = {symbol: found for symbol in functions if (found := TABLE.search(symbol))}
    served = {
        symbol: found.groups()
        for symbol, found in tables.items()
        if not found[2].endswith(NOT_SERVED)
    }
    assert len(served) > 20
    assert [kind for symbol, kind in served.items() if symbol.encode() not in counts] == []


@pytest.mark.parametrize("rate", ["10k", "5k"])
def test_the_gateway_costs_what_its_record_says(rate: str) -> None:
    run, trials = records.read(RECORDS / f"gateway-{rate}")
    (cost,) = inference.summarise(run, trials, has_curves=False).by(Metric.COST)
    assert (cost.arm, cost.against) == ("jissoku-gateway", "nginx-gateway")
    assert cost.ratio
    said = f"{cost.ratio.value:.2f} [{cost.ratio.low:.2f}, {cost.ratio.high:.2f}]"
    for page in (RECORDS.parent / "README.md", DECISION):
        assert said in page.read_text("utf-8")


@pytest.mark.slow
def test_each_case_is_served_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = tomllib.loads((HERE / "cases.toml").read_text())
    run_cases(Training(PACKAGES, tmp_path, tmp_path, 50), cases, make_places(tmp_path))
    assert len(capsys.readouterr().out.splitlines()) == len(cases["case"])
