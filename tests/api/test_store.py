"""`jissoku.store`: what its methods return and raise, and several processes."""

import errno
import math
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from jissoku import store
from jissoku.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "store.md"


@pytest.fixture
def shop(tmp_path: Path) -> Store:
    return store.open("shop", folder=tmp_path, size="1MiB")


def test_values_are_bytes_and_text_is_utf_8(shop: Store) -> None:
    assert shop.get("größe") is None
    shop.put("größe", "M")
    shop.put(b"\0\xff", b"")
    assert (shop.get("größe".encode()), shop.get(b"\0\xff")) == (b"M", b"")
    assert list(shop.scan()) == [(b"\0\xff", b""), ("größe".encode(), b"M")]
    assert list(shop.scan("gr")) == [("größe".encode(), b"M")]
    assert (shop.delete("größe"), shop.delete("größe")) == (True, False)


def test_values_are_changed_under_a_condition(shop: Store) -> None:
    assert (shop.put_if_absent("job", "1"), shop.put_if_absent("job", "2")) == (True, False)
    assert not shop.compare_and_swap("job", None, "3")
    assert not shop.compare_and_swap("job", "2", "3")
    assert shop.compare_and_swap("job", "1", "3")
    assert shop.get("job") == b"3"
    assert (shop.increment("job"), shop.increment("job", -5), shop.get("job")) == (4, -1, b"-1")


def test_times_to_live_are_seconds(tmp_path: Path) -> None:
    shop = store.open("shop", folder=tmp_path, size=1 << 20, ttl=3600)
    assert shop.stats().ttl_s == 3600
    shop.put("gone", "1", ttl=0)
    shop.put("kept", "1", ttl=math.inf)
    assert (shop.get("gone"), shop.get("kept")) == (None, b"1")
    for wrong in (-1, math.nan, -math.inf):
        with pytest.raises(ValueError, match="ttl is a number of seconds"):
            shop.put("kept", "2", ttl=wrong)


def test_long_lists_are_read_in_parts(shop: Store) -> None:
    shop.put_many((f"{number:05}", "v") for number in range(2500))
    assert [int(key) for key, _ in shop.scan()] == list(range(2500))
    assert shop.stats().entries == 2500


def test_several_are_written_in_one_transaction_or_none(shop: Store) -> None:
    shop.put_many({"a": "1", "b": "2"})
    shop.put_many([("c", "3"), ("a", None), (b"b", "4"), ("c", None), ("c", "5")])
    expected = [(b"b", b"4"), (b"c", b"5")]
    assert list(shop.scan()) == expected
    with pytest.raises(ValueError, match=r"^entries\[2\]: a key has 1 to 500 bytes"):
        shop.put_many([("b", None), ("d", "1"), ("", "1")])
    with pytest.raises(OSError, match=r"entries\[1\]: the store is full") as full:
        shop.put_many({"b": None, "d": bytes(2 << 20)})
    assert full.value.errno == errno.ENOSPC
    with pytest.raises(ValueError, match="as a test"):
        shop.put_many((key, "1") if key else raised() for key in ("d", ""))
    shop.put_many({})
    assert list(shop.scan()) == expected


def raised() -> tuple[str, str]:
    raise ValueError("as a test")


def test_errors_are_those_of_python(shop: Store, tmp_path: Path) -> None:
    for key in ("", "k" * 501):
        with pytest.raises(ValueError, match="1 to 500 bytes"):
            shop.get(key)
    with pytest.raises(ValueError, match="16777216"):
        shop.put("key", bytes((16 << 20) + 1))
    with pytest.raises(OSError, match="the store is full") as full:
        shop.put("key", bytes(2 << 20))
    assert full.value.errno == errno.ENOSPC
    shop.put("word", "w")
    with pytest.raises(ValueError, match="whole number"):
        shop.increment("word")
    with pytest.raises(FileNotFoundError, match='no store "other"'):
        store.open("other", folder=tmp_path)
    with pytest.raises(ValueError, match="is in use with a size of 1048576 bytes"):
        store.open("shop", folder=tmp_path, size="2MiB")
    for options in ({"durability": "strong", "size": 1 << 20}, {"ttl": 5}, {"size": "much"}):
        with pytest.raises(ValueError, match=r"durability is|need its size|write a size"):
            store.open("another", folder=tmp_path, **options)
    with pytest.raises(ValueError, match="no folder of stores"):
        store.open("shop")


def test_a_damaged_file_is_a_warning(tmp_path: Path) -> None:
    shop = store.open("shop", folder=tmp_path, size="1MiB", when_full="drop")
    shop.put("key", "value")
    del shop
    (tmp_path / "shop" / "data.mdb").write_bytes(b"no store")
    with pytest.warns(RuntimeWarning, match="the store shop was damaged"):
        shop = store.open("shop", folder=tmp_path, size="1MiB")
    assert shop.get("key") is None
    (other,) = (tmp_path / "shop").glob("data.mdb.damaged-*")
    assert other.read_bytes() == b"no store"


def increments(folder: str, count: int) -> None:
    shop = store.open("shop", folder=folder)
    for _ in range(count):
        shop.increment("sum")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_sums_over_processes_are_exact(shop: Store, tmp_path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    shop.put("sum", "0")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        list(pool.map(increments, [str(tmp_path)] * 3, [500] * 3))
    increments(str(tmp_path), 500)
    assert shop.get("sum") == b"2000"


def test_threads_share_a_store(shop: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: shop.increment("sum"), range(400)))
    assert shop.get("sum") == b"400"


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(block, {})  # noqa: S102 - the page is ours
