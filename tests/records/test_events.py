"""Events of a run: written between trials, followed by other processes."""

import os
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.measure.progress import follow, newest
from jissoku.model.trial import Event, EventKind
from jissoku.records.run_folder import EVENTS_FILE, EventWriter, read_events


def note(text: str) -> Event:
    return Event(kind=EventKind.NOTE, elapsed_s=1.0, text=text)


def test_a_reader_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as events:
        first, offset = read_events(tmp_path)
        assert [event.kind for event in first] == [EventKind.START]
        assert first[0].pid == os.getpid()
        events.add(note("one"))
        second, offset = read_events(tmp_path, offset)
        assert [event.text for event in second] == ["one"]
        assert read_events(tmp_path, offset) == ((), offset)
    last, _ = read_events(tmp_path, offset)
    assert [event.kind for event in last] == [EventKind.END]


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).write_bytes(b'{"kind":"note","elapsed_s":1,"te')
    assert read_events(tmp_path) == ((), 0)
    with (tmp_path / EVENTS_FILE).open("ab") as file:
        file.write(b'xt":"late"}\nnonsense\n')
    events, _ = read_events(tmp_path)
    assert [event.text for event in events] == ["late"]


def test_following_ends_with_the_run(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as events:
        events.add(note("one"))
    assert [event.kind for event in follow(tmp_path)] == ["start", "note", "end"]


def test_following_ends_when_the_process_is_gone(tmp_path: Path) -> None:
    # No process has a number as large (proc(5), pid_max).
    (tmp_path / EVENTS_FILE).write_bytes(b'{"kind":"start","elapsed_s":0,"pid":2147483647}\n')
    assert [event.kind for event in follow(tmp_path, interval_s=0)] == ["start"]


def test_an_error_is_named_without_its_message(tmp_path: Path) -> None:
    def fail() -> None:
        with EventWriter(tmp_path):
            raise ValueError("a path of this machine")

    with pytest.raises(ValueError, match="a path"):
        fail()
    *_, last = follow(tmp_path)
    assert last.text == "it ended with ValueError"


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    for name, age in (("new", 0), ("old", 50)):
        (tmp_path / name).mkdir()
        with EventWriter(tmp_path / name):
            pass
        os.utime(tmp_path / name / EVENTS_FILE, (1_000_000 - age, 1_000_000 - age))
    assert newest(tmp_path) == tmp_path / "new"


def test_a_folder_without_events_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run with"):
        newest(tmp_path)
    with pytest.raises(InputError, match="older version"):
        follow(tmp_path)
