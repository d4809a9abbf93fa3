"""Starlette and FastAPI on the server, and httpx as the client."""

import time
from collections.abc import Iterator

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S

pytestmark = pytest.mark.slow

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("fastapi")

APP = """
import asyncio, contextlib
import anyio
from fastapi import BackgroundTasks, FastAPI, Request, UploadFile
from fastapi.responses import FileResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware

done = []

@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"pool": "open"}

app = FastAPI(lifespan=lifespan)

async def dispatch(request, call_next):
    response = await call_next(request)
    response.headers["x-middleware"] = "yes"
    return response

app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)

class Item(BaseModel):
    name: str
    price: float

@app.get("/state")
async def state(request: Request):
    return {"pool": request.state.pool, "client": request.client.host}

@app.get("/thread")
def thread():
    return PlainTextResponse("from a thread")

@app.post("/items")
async def items(item: Item):
    return item

@app.post("/upload")
async def upload(file: UploadFile):
    return {"size": len(await file.read())}

@app.get("/stream")
async def stream():
    async def parts():
        for number in range(5):
            await asyncio.sleep(0.001)
            yield f"{number}\\n"
    return StreamingResponse(parts(), media_type="text/event-stream")

@app.get("/file")
async def file():
    return FileResponse(__file__)

@app.get("/anyio")
async def groups():
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep(10)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0.001)
    return {"cancelled": scope.cancelled_caught}

@app.get("/background")
async def background(tasks: BackgroundTasks):
    tasks.add_task(done.append, "done")
    return {}

@app.get("/done")
async def read_done():
    return done

@app.get("/error")
async def error():
    raise ValueError("of the endpoint")
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("frameworks")
    (directory / "there.py").write_text(APP)
    served = serve("there:app", directory=directory)
    try:
        yield f"http://127.0.0.1:{port_of(served)}"
    finally:
        served.end()


def test_endpoints_of_a_framework_answer(url: str) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        state = client.get("/state")
        assert state.json() == {"pool": "open", "client": "127.0.0.1"}
        assert state.headers["x-middleware"] == "yes"
        assert client.get("/thread").text == "from a thread"
        item = {"name": "a", "price": 1.5}
        assert client.post("/items", json=item).json() == item
        assert client.post("/items", json={}).status_code == 422
        files = {"file": ("a.bin", bytes(200_000))}
        assert client.post("/upload", files=files).json() == {"size": 200_000}
        assert client.get("/stream").text == "0\n1\n2\n3\n4\n"
        assert "BaseHTTPMiddleware" in client.get("/file").text
        assert client.get("/anyio").json() == {"cancelled": True}
        assert client.get("/background").json() == {}
        # The task runs after the response; the test's timeout bounds the wait.
        while client.get("/done").json() != ["done"]:
            time.sleep(0.01)
        assert client.get("/error").status_code == 500
        assert client.head("/state").status_code == 405
        assert client.get("/nowhere").status_code == 404
