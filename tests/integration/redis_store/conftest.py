"""A Valkey of one test's own, that it may break, and the wait for what must come true."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ops.dev.servers import running


@pytest.fixture
def own_redis_url(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "valkey", which={"valkey"}, durable=False) as servers:
        yield servers.redis_url


async def until(holds: Callable[[], Awaitable[bool]], what: str, *, within_sec: float = 60.0) -> None:
    """Poll until it holds; AssertionError after the time."""
    deadline = time.monotonic() + within_sec
    while not await holds():
        assert time.monotonic() < deadline, f"{what} did not come true in {within_sec} s"
        await asyncio.sleep(0.02)
