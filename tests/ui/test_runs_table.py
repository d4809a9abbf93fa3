"""The list of runs in pages, and its state in the address."""

import random
from urllib.parse import parse_qsl, urlsplit

import pytest

from jissoku.ui.run_index import (
    PAGE_ROWS,
    RunQuery,
    listed_run,
    page_of,
    read_query,
    runs_found,
)
from tests.history.factories import indexed

COUNT = 2 * PAGE_ROWS + 7

RUNS = [
    listed_run(indexed({"a": 0.0}, random.Random(1), number=number, trials=number % 3))
    for number in range(COUNT)
]

QUERIES = [
    RunQuery(),
    RunQuery(is_ascending=True),
    RunQuery(sort="trials"),
    RunQuery(text="get 64 & <b>", command="compare", machine="m", sort="targets", after="run0001"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_an_address_gives_the_same_list_again(query: RunQuery) -> None:
    assert read_query(dict(parse_qsl(urlsplit(query.url).query))) == query


@pytest.mark.parametrize("query", QUERIES[:3])
def test_pages_have_every_run_once(query: RunQuery) -> None:
    found = runs_found(RUNS, query)
    seen: list[str] = []
    after = ""
    for size in (PAGE_ROWS, PAGE_ROWS, 7):
        page = page_of(found, read_query({"after": after}))
        assert (len(page.runs), page.count) == (size, COUNT)
        seen += [run.row.run for run in page.runs]
        after = page.next_after
    assert after == ""
    assert seen == [one.row.run for one in found]
    assert len(set(seen)) == COUNT


def test_a_page_stays_where_it_is_when_a_run_is_added() -> None:
    before = runs_found(RUNS, RunQuery())
    after = page_of(before, RunQuery()).next_after
    new = listed_run(indexed({"a": 0.0}, random.Random(1), number=COUNT, run="new"))
    grown = runs_found([*RUNS, new], RunQuery())
    second = RunQuery(after=after)
    assert page_of(grown, second).runs == page_of(before, second).runs
