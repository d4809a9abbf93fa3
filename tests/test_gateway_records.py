"""Cases and counts of reverse proxies, kept in records/gateways: the tables are made of them.

`python -m tests.test_gateway_records` rewrites the tables of records/gateways/README.md; with
`--measure [NAME...]` it first runs the cases of these proxies, or of all: those of a proxy that is
not here stay as they are.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests import conformance_record
from tests.conformance_record import Json
from tests.records_table import fill, table_of

FOLDER = Path(__file__).parent.parent / "records" / "gateways"
README = FOLDER / "README.md"

# The proxies, as the columns have them.
NAMES = {
    "jissoku": "jissoku",
    "nginx": "nginx",
    "haproxy": "HAProxy",
    "caddy": "Caddy",
    "envoy": "Envoy",
}
VERDICTS = ("pass", "differs", "SHOULD violated", "MUST violated", "undecided")


def test_the_cases_are_those_of_the_records() -> None:
    assert fill(README, "cases", cases_table()) == README.read_text("utf-8")


def test_the_violations_are_those_of_the_records() -> None:
    assert fill(README, "violations", violations_table()) == README.read_text("utf-8")


def test_the_counts_are_those_of_the_records() -> None:
    assert fill(README, "counts", counts_table()) == README.read_text("utf-8")


def test_ours_violates_nothing_and_sends_nothing_twice() -> None:
    ours = _cases("jissoku")
    assert {"SHOULD violated", "MUST violated"}.isdisjoint(_verdicts(ours["cases"]))
    for count in _counts("jissoku"):
        for result in count["results"]:
            for method, found in result.get("methods", {}).items():
                assert found["doubled"] == 0
                assert method == "POST" or not found["errors"], (count["count"], method)


def cases_table() -> str:
    """How many cases of each group have each verdict."""
    found = {name: _cases(name) for name in NAMES}
    groups = sorted({case["group"] for one in found.values() for case in one["cases"]})
    rows = [[group, *(_share(one["cases"], group) for one in found.values())] for group in groups]
    rows.append(["all", *(_share(one["cases"]) for one in found.values())])
    return table_of(["clause", *_heads(found)], rows)


def violations_table() -> str:
    """The cases in which a proxy violates a MUST."""
    found = {name: _cases(name) for name in NAMES}
    violated = {
        name: {case["name"] for case in one["cases"] if case["verdict"] == "MUST violated"}
        for name, one in found.items()
    }
    known = {case["name"]: case for one in found.values() for case in one["cases"]}
    rows = [
        [
            name,
            case["clause"].removeprefix("RFC ").replace(" section ", " "),
            *("MUST" if name in violated[proxy] else "" for proxy in NAMES),
        ]
        for name, case in known.items()
        if any(name in names for names in violated.values())
    ]
    return table_of(["case", "clause", *NAMES.values()], rows)


def counts_table() -> str:
    """Errors at the clients, and requests that reached a server twice."""
    columns = [dict(_counted(_counts(name))) for name in NAMES]
    labels = list(columns[0])
    rows = [[label, *(column.get(label, "-") for column in columns)] for label in labels]
    return table_of(["", *_heads({name: _cases(name) for name in NAMES})], rows)


def _counted(counts: Sequence[Json]) -> Iterator[tuple[str, str]]:
    for count in counts:
        if count["count"] == "mutations":
            yield from _mutations(count["results"])
            continue
        for result in count["results"]:
            socket = {"tcp": "TCP", "unix": "Unix"}[result["upstream"]]
            for method in ("GET", "PUT", "POST"):
                if found := result["methods"].get(method):
                    text = f"{sum(found['errors'].values())} of {found['requests']:,}"
                    twice = "" if method == "GET" else f", {found['doubled']} twice"
                    yield f"{count['count']}, {socket}, {method}", text + twice


def _mutations(results: Sequence[Json]) -> Iterator[tuple[str, str]]:
    labels = {
        "mutated requests": "sent",
        "of these forwarded": "forwarded",
        "connections read differently": "differing",
        "crossed": "crossed",
        "surplus": "surplus",
    }
    for label, key in labels.items():
        yield label, f"{sum(result[key] for result in results):,}"


def _share(cases: Sequence[Json], group: str = "") -> str:
    verdicts = _verdicts([case for case in cases if group in {"", case["group"]}])
    return " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)


def _verdicts(cases: Sequence[Json]) -> list[str]:
    return [case["verdict"] for case in cases]


def _heads(found: dict[str, Json]) -> list[str]:
    return [
        f"{NAMES[name]} {one['version'].split('-')[0].split()[0]}" for name, one in found.items()
    ]


def _cases(name: str) -> Json:
    return conformance_record.read(FOLDER / f"{name}-cases.json")


def _counts(name: str) -> list[Json]:
    read: list[Json] = json.loads((FOLDER / f"{name}-counts.json").read_text("utf-8"))
    return read


def _measure(names: Sequence[str]) -> None:
    for name in names or NAMES:
        file = FOLDER / f"{name}-cases.json"
        conformance_record.measure(["--through", f"{name}-gateway"], file)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        _measure(sys.argv[2:])
    for part, text in (
        ("cases", cases_table()),
        ("violations", violations_table()),
        ("counts", counts_table()),
    ):
        README.write_text(fill(README, part, text), "utf-8")
