"""An ingestion service as people write it with FastAPI and clickhouse-connect.

By default a request is inserted before it is answered, as ClickHouse's documentation advises for
small requests: async_insert, and the answer is waited for. With BUFFER=1 a request is answered at
once; a task inserts what has been collected, once a second.
"""

import asyncio
import json
import os
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import clickhouse_connect
from fastapi import FastAPI
from pydantic import BaseModel

BUFFERED = os.environ.get("BUFFER") == "1"
FLUSH_SECONDS = 1.0
COLUMNS = ["uuid", "event", "distinct_id", "timestamp", "properties"]
SETTINGS = {} if BUFFERED else {"async_insert": 1, "wait_for_async_insert": 1}

rows: list[list[Any]] = []
state: dict[str, Any] = {}


class Event(BaseModel):
    uuid: UUID
    event: str
    distinct_id: str
    timestamp: datetime
    properties: dict[str, Any] = {}


class Batch(BaseModel):
    api_key: str
    batch: list[Event]


async def insert(data: list[list[Any]]) -> None:
    await state["client"].insert(
        "events", data, column_names=COLUMNS, database="peers", settings=SETTINGS
    )


async def flush_forever() -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        await flush()


async def flush() -> None:
    global rows
    waiting, rows = rows, []
    if waiting:
        try:
            await insert(waiting)
        except Exception:
            rows = waiting + rows
            raise


@asynccontextmanager
async def lifespan(_: FastAPI):
    url = urlsplit(os.environ["CLICKHOUSE_URL"])
    state["client"] = await clickhouse_connect.get_async_client(
        host=url.hostname,
        port=url.port,
        username=os.environ["CLICKHOUSE_USER"],
        password=os.environ["CLICKHOUSE_PASSWORD"],
        autogenerate_session_id=False,
    )
    task = asyncio.create_task(flush_forever()) if BUFFERED else None
    yield
    if task:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await flush()


app = FastAPI(lifespan=lifespan)


@app.post("/batch/")
async def batch(body: Batch):
    data = [
        [it.uuid, it.event, it.distinct_id, it.timestamp, json.dumps(it.properties)]
        for it in body.batch
    ]
    if BUFFERED:
        rows.extend(data)
    else:
        await insert(data)
    return {"status": 1}
