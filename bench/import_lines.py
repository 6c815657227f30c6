"""Rows a second of an import, without the pace that is set for it: one process, and the database behind it."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import orjson

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.ingest_stack import Stack, ingest_stack

LINES: Final = 20_000
_PIECE: Final = 500
_UNPACED: Final = {"ULAK_INGEST_IMPORT_ROWS_PER_SECOND": "100000000"}

Line = Callable[[int], dict[str, Any]]


def import_bench(kind: str, line: Line) -> Bench:
    """A bench of one kind of lines; line makes the nth of all that are ever sent."""
    numbers = itertools.count()

    @asynccontextmanager
    async def opened(servers: Servers) -> AsyncIterator[Pair]:
        async with ingest_stack(servers, "admin", _UNPACED) as stack:
            yield Pair(lambda: _figure(stack, kind, line, numbers), None, lambda: [stack.pid])

    return Bench(f"import-{kind}", "rows/s", first=None, goal=None, open=opened)


async def _figure(stack: Stack, kind: str, line: Line, numbers: "itertools.count[int]") -> Sample:
    """One import of new lines; every one must be accepted."""
    pieces = [
        b"".join(orjson.dumps(line(next(numbers)), option=orjson.OPT_APPEND_NEWLINE) for _ in range(_PIECE))
        for _ in range(LINES // _PIECE)
    ]

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers = {"authorization": f"Bearer {stack.secret}", "content-type": "application/x-ndjson"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{stack.port}", headers=headers, timeout=120) as client:
        answer = await client.post(f"/internal/v1/imports/{kind}", content=body())
    if answer.status_code != 200 or answer.json()["accepted"] != LINES:
        raise WrongResultError(f"{answer.status_code}: {answer.text[:200]}")
    return Sample(LINES, answer.elapsed.total_seconds())
