"""Which folders of campaigns are removed, among whatever else is in their folder."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from jissoku.fleet.campaign_folder import (
    COPIED_FILE,
    DAY_S,
    ENDED_FILE,
    LEASE_FILE,
    REMOVED,
    Lease,
    remove_copied,
)
from jissoku.fleet.campaign_wire import CampaignId
from jissoku.request import ComparisonRequest
from tests.fleet.campaigns import ARMS

KEEP_DAYS, NOW = 30.0, 1_800_000_000.0
RUNS = ("0123456789abcdef", "f" * 16)

# What can stand in place of a file or of a folder of a campaign.
LEASES = ("own", "of another", "damaged", "link", "none")
COPIES = ("old", "new", "link", "none")
PLACES = ("folder", "link", "link as run", "other name", "file")


def campaigns() -> st.SearchStrategy[list[tuple[object, ...]]]:
    one = st.tuples(
        st.sampled_from(RUNS),
        st.sampled_from(("1-1", "1-2", "17-1")),
        st.sampled_from(PLACES),
        st.sampled_from(LEASES),
        st.sampled_from(COPIES),
        st.booleans(),
    )
    return st.lists(one, max_size=8, unique_by=lambda given: given[:2])


def make(place: Path, name: str, lease: str, copied: str, elsewhere: Path) -> None:
    """A folder of a campaign, or nearly one."""
    (place / "record").mkdir(parents=True)
    (place / "record" / "trials.jsonl").write_text("a line\n")
    (place / "record" / "linked").symlink_to(elsewhere)
    (place / ENDED_FILE).write_text("{}")
    run, _, number = name.partition("/")
    machine, attempt = map(int, number.split("-"))
    machine += lease == "of another"
    key = CampaignId(run=run, machine=machine, attempt=attempt)
    text = msgspec.json.encode(Lease(id=key, request=ComparisonRequest(arms=ARMS)))
    if lease == "link":
        (elsewhere / place.name).write_bytes(text)
        (place / LEASE_FILE).symlink_to(elsewhere / place.name)
    elif lease != "none":
        (place / LEASE_FILE).write_bytes(b"{" if lease == "damaged" else text)
    if copied == "link":
        (place / COPIED_FILE).symlink_to(elsewhere / "old")
    elif copied != "none":
        (place / COPIED_FILE).touch()
        days = KEEP_DAYS + (1 if copied == "old" else -1)
        os.utime(place / COPIED_FILE, (0, NOW - days * DAY_S))


def everything(folder: Path) -> dict[str, bytes | str]:
    """All names below a folder, with what is in files and where links lead to."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else ""
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(campaigns())
def test_only_copied_and_old_campaigns_of_an_agent_are_removed(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    found: list[tuple[str, str, str, str, str, bool]],
) -> None:
    monkeypatch.setattr("jissoku.fleet.campaign_folder.now", lambda: NOW)
    folder, elsewhere = (tmp_path_factory.mktemp(name) for name in ("bench", "elsewhere"))
    (folder / "notes.txt").write_text("the operator's")
    (elsewhere / "old").touch()
    os.utime(elsewhere / "old", (0, 0))
    going, under_way = set(), set()
    for run, number, kind, lease, copied, has_ended in found:
        name = f"{run}/{number}"
        place = folder / name
        place.parent.mkdir(exist_ok=True)
        if kind == "folder":
            make(place, name, lease, copied, elsewhere)
            if not has_ended:
                under_way.add(name)
            elif (lease, copied) == ("own", "old"):
                going.add(name)
        elif kind == "file":
            place.write_text("no folder")
        elif kind == "other name":
            make(folder / run / f"{number}x", name, lease, copied, elsewhere)
        else:
            # As it would be named, but a link is on the way to it.
            real = elsewhere / kind / name
            make(real, name, "own", "old", elsewhere)
            link = folder / f"{run[::-1]}" if kind == "link as run" else place
            if not link.exists():
                link.symlink_to(real.parent if kind == "link as run" else real)
    before, outside = everything(folder), everything(elsewhere)

    def is_over(place: Path) -> bool:
        return str(place.relative_to(folder)) not in under_way

    assert set(remove_copied(folder, KEEP_DAYS, is_over)) == going
    after = everything(folder)
    assert everything(elsewhere) == outside
    gone = set(before) - set(after)
    assert all(
        any(f"{name}/".startswith(f"{one}/") for one in going) or name in RUNS for name in gone
    )
    assert not any(name in after for name in going)
    assert {name: before[name] for name in after} == after
    assert remove_copied(folder, KEEP_DAYS, is_over) == []
    assert everything(folder) == after


def test_a_removal_that_was_cut_off_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of it is no campaign any more, which would have no record."""
    name = f"{RUNS[0]}/1-1"
    make(tmp_path / "bench" / name, name, "own", "old", tmp_path)

    def cut(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("jissoku.fleet.campaign_folder.now", lambda: NOW)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", cut)
        assert remove_copied(tmp_path / "bench", KEEP_DAYS, lambda _: True) == [name]
    assert [path.name for path in (tmp_path / "bench" / RUNS[0]).iterdir()] == [f"1-1{REMOVED}"]
    assert remove_copied(tmp_path / "bench", KEEP_DAYS, lambda _: True) == []
    assert list((tmp_path / "bench").iterdir()) == []
