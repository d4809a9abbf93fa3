"""Pages of ASGI frameworks: FastAPI with a model, Starlette with a stream and with events.

Other paths than these are the contract's.
"""

import importlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import StreamingResponse

contract: Any = importlib.import_module("asgi_app").app  # beside this file

ITEMS = 20
CHUNK = b"x" * 16_384
CHUNKS = 64
EVENTS = 50

fast_app = FastAPI(openapi_url=None)


class Item(BaseModel):
    id: int
    name: str
    price: float


@fast_app.get("/json")
async def items(limit: int = ITEMS) -> list[Item]:
    return [Item(id=n, name=f"item {n}", price=n * 1.5) for n in range(limit)]


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(CHUNKS):
        yield CHUNK


async def events() -> AsyncIterator[bytes]:
    """Server-sent events (HTML, section 9.2)."""
    for number in range(EVENTS):
        yield b'id: %d\ndata: {"number": %d}\n\n' % (number, number)


@fast_app.get("/stream")
async def stream(_request: Request) -> StreamingResponse:
    return StreamingResponse(chunks(), media_type="application/octet-stream")


@fast_app.get("/events")
async def event_stream(_request: Request) -> StreamingResponse:
    return StreamingResponse(events(), media_type="text/event-stream")


PAGES = {"/json", "/stream", "/events"}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await (fast_app if scope.get("path") in PAGES else contract)(scope, receive, send)
