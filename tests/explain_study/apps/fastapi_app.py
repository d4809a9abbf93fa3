"""A FastAPI application with a fault behind each path."""

import time

from fastapi import FastAPI

app = FastAPI()

PAUSE_S = 0.02
STEPS = 500_000


@app.get("/clean")
async def clean() -> dict[str, int]:
    return {"answer": 42}


@app.get("/blocking")
async def blocking() -> dict[str, int]:
    time.sleep(PAUSE_S)  # noqa: ASYNC251 - this is the fault
    return {"answer": 42}


@app.get("/threads")
def threads() -> dict[str, int]:
    """Runs in a thread of the pool, and computes there."""
    return {"answer": sum(range(STEPS))}
