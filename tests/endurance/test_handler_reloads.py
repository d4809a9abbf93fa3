"""Two hundred reloads of a handler under load lose nothing, and leave nothing in memory."""

from pathlib import Path
from typing import get_args

import pytest

from tests.c_handlers.reloading import Kind, reload_often
from tests.endurance.conftest import print_line

pytestmark = pytest.mark.endurance

# What a process may have grown by, in bytes: allocators keep pages that are free.
GROWTH_MAX = 1 << 20


@pytest.mark.timeout(4000)
@pytest.mark.parametrize("kind", get_args(Kind))
def test_nothing_is_lost_and_nothing_grows_in_two_hundred_reloads(
    kind: Kind, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = int(request.config.getoption("--reloads"))
    seen = reload_often(kind, count, tmp_path)
    print_line(request, f"{kind}: {count} reloads, {seen.answers:,} requests, 0 lost")
    growth = []
    changes = []
    for workers, sizes in sorted(seen.memory.items()):
        # The first reloads fill what later ones use again.
        early, late = sizes[len(sizes) // 4], sizes[-1]
        growth += [after - before for before, after in zip(early, late, strict=True)]
        # While old workers end, there are a few more.
        descriptors = seen.descriptors[workers]
        half = len(descriptors) // 2
        changes.append(min(descriptors[half:]) - min(descriptors[:half]))
        print_line(
            request,
            f"{kind}, {workers} workers: first process {early[0]:,} -> {late[0]:,} bytes, "
            f"{min(descriptors)} descriptors; all processes {early[1]:,} -> {late[1]:,} bytes",
        )
    assert seen.handled == seen.answers > 0
    assert max(growth) < GROWTH_MAX
    assert not any(changes)
