"""Tokens by a signer's key set, read over real HTTP; fixtures: database, redis_url, key_ring."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from services.me.jwks import JwksError, open_jwks
from shared.core.sealing import KeyRing
from tests.integration.ingest.conftest import until
from tests.integration.me.conftest import PREFERENCES, SECRET, running, settings_of, token
from tests.integration.plain_http import plain_client

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def answer(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n".encode() + body


def key_set(**members: Any) -> bytes:
    return answer(json.dumps({"keys": [json.loads(RSAAlgorithm.to_jwk(KEY.public_key())) | members]}).encode())


class Signer:
    """An HTTP server that says what the test tells it to; None: nothing at all. Counts who asked."""

    def __init__(self) -> None:
        self.says: bytes | None = key_set(kid="a")
        self.asked = 0
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        if self.says is None:
            await self.over.wait()
        else:
            writer.write(self.says)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def signing() -> AsyncIterator[tuple[Signer, str]]:
    signer = Signer()
    server = await asyncio.start_server(signer.serve, "127.0.0.1", 0)
    async with server:
        yield signer, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks"
        signer.over.set()


@pytest.mark.parametrize(
    ("says", "why"),
    [
        pytest.param(answer(b"", "302 Found", "Location: http://127.0.0.1:1/\r\n"), "302", id="redirect"),
        pytest.param(answer(b"", "500 Oops"), "500", id="failure"),
        pytest.param(answer(b"x" * 300_000), "larger", id="too-large"),
        pytest.param(b"nonsense\r\n\r\n", "no answer", id="no-http"),
        pytest.param(None, "no answer", id="too-slow"),
    ],
)
async def test_what_is_no_key_set_is_not_read(says: bytes | None, why: str) -> None:
    async with signing() as (signer, url), open_jwks(url, timeout_sec=0.5) as read:
        signer.says = says
        with pytest.raises(JwksError, match=why):
            await read()


async def test_the_service_believes_the_signers_keys_and_lives_through_its_absence(
    database: str, pool: asyncpg.Pool, redis_url: str, key_prefix: str, key_ring: KeyRing
) -> None:
    async with signing() as (signer, url):
        settings = settings_of(database, redis_url, key_prefix, jwt_secret=None, jwks_url=url, jwks_retry_sec=0.01)
        signer.says = answer(b"", "503 Not yet")
        async with (
            running(settings, key_ring) as me,
            plain_client(base_url=me, timeout=60) as client,
        ):

            async def status(bearer: str) -> int:
                answered = await client.get(PREFERENCES, headers={"authorization": f"Bearer {bearer}"})
                return answered.status_code

            good = token(key=KEY, algorithm="RS256", key_id="a")
            assert await status(good) == 503
            signer.says = key_set(kid="a")

            async def believed() -> bool:
                return await status(good) == 200

            await until(believed, seconds=60)  # at the first reading that is not too soon after the one that failed
            signer.says = answer(b"", "500 Oops")
            assert await status(good) == 200
            assert await status(token()) == 401, "a secret is nobody's here"
            assert await status(token(key=SECRET, key_id="a")) == 401
            assert await status(token(key=KEY, algorithm="RS256", key_id="b")) == 401
