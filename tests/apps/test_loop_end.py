"""The end of an event loop is reported to the parent process if the application goes on."""

import asyncio
import importlib.util
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    path = ROOT / "crates" / "jissoku-apps" / "src" / "asgi" / "event_loop.py"
    spec = importlib.util.spec_from_file_location("jissoku_event_loop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Ended:
    """What has happened, and what ends with the first report."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.thread = threading.Event()
        self.is_over = False

    def report(self) -> None:
        self.events.append("overdue")
        self.is_over = True
        self.thread.set()

    async def app(self, _scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.events.append("shutdown")
        await send({"type": "lifespan.shutdown.complete"})


async def idle(_: Ended) -> None:
    await asyncio.sleep(3600)


async def stubborn(ended: Ended) -> None:
    while not ended.is_over:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


async def in_a_thread(ended: Ended) -> None:
    await asyncio.to_thread(ended.thread.wait)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (idle, ["shutdown"]),
        (stubborn, ["shutdown", "overdue"]),
        (in_a_thread, ["shutdown", "overdue"]),
    ],
)
def test_an_application_that_goes_on_after_its_shutdown_is_reported(
    task: Any, expected: list[str]
) -> None:
    module, ended = load(), Ended()
    loop = asyncio.new_event_loop()
    lifespan = module.Lifespan(ended.app, loop)
    assert lifespan.start() is None
    running = loop.create_task(task(ended))
    loop.run_until_complete(asyncio.sleep(0))
    module.finish(loop, lifespan, ended.report)
    assert running.done()
    assert ended.events == expected
