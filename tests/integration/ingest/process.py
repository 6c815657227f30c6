"""The service as a process of its own, for tests that kill it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from shared.core.sealing import KeyRing
from shared.runtime.keyring import ring_json
from tests.integration.ingest.conftest import until
from tests.integration.plain_http import plain_client
from tests.ports import free_port


@asynccontextmanager
async def process(
    database: str, ring: KeyRing, bootstrap: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`python -m services.ingest` as a process of its own, answering; killed at the end if it still lives."""
    port = free_port()
    environment = os.environ | {
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "ULAK_KEY_RING": ring_json(ring).decode(),
        "ULAK_HTTP_PORT": str(port),
        "ULAK_HEALTH_PORT": str(free_port()),
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.ingest", env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"

    async def answers() -> bool:
        async with plain_client() as client:
            try:
                await client.get(url)
            except httpx.TransportError:
                return False
            return True

    try:
        await until(answers)
        yield child, url
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
