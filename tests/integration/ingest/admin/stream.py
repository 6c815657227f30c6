"""Imports as tests send them: whole bodies, or one written by hand, chunk after chunk."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.integration.ingest.conftest import Ingest

PATH = "/internal/v1/imports"
HEADERS = {"content-type": "application/x-ndjson"}


def ndjson(lines: Iterable[Any]) -> bytes:
    return b"".join(line if isinstance(line, bytes) else orjson.dumps(line) + b"\n" for line in lines)


def users(first: int, end: int) -> Iterator[dict[str, Any]]:
    return ({"userId": f"u{number}", "locale": "tr"} for number in range(first, end))


async def send(
    ingest: Ingest, path: str, body: bytes | AsyncIterator[bytes], **options: Any
) -> tuple[int, dict[str, Any]]:
    headers = HEADERS | options.pop("headers", {})
    answer = await ingest.client.post(f"{PATH}/{path}", content=body, headers=headers, timeout=120, **options)
    return answer.status_code, answer.json()


async def run_of(ingest: Ingest, import_id: str) -> dict[str, Any]:
    answer = await ingest.client.get(f"{PATH}/{import_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def opened(ingest: Ingest, kind: str = "recipients") -> str:
    """A run without a line yet."""
    answer = await ingest.client.post(f"{PATH}/{kind}", content=b"")
    assert (answer.status_code, answer.json()["state"]) == (201, "RUNNING"), answer.text
    import_id: str = answer.json()["importId"]
    assert answer.headers["location"] == f"{PATH}/{import_id}"
    return import_id


async def bad(ingest: Ingest, import_id: str, after: int = 0) -> list[tuple[int, str, str]]:
    answer = await ingest.client.get(f"{PATH}/{import_id}/errors", params={"after": after})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [(line["line"], line["code"], line["path"]) for line in map(orjson.loads, answer.text.splitlines())]


@asynccontextmanager
async def streaming(ingest: Ingest, target: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A request whose body is written by hand, chunk after chunk."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(ingest.url).port)
    writer.write(
        f"POST {PATH}/{target} HTTP/1.1\r\nHost: x\r\nAuthorization: {ingest.client.headers['authorization']}\r\n"
        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    try:
        yield reader, writer
    finally:
        writer.close()


def chunked(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await asyncio.wait_for(reader.readline(), 60)).split()[1])
