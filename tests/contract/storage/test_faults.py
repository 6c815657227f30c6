"""What an S3 service does wrong: each fault has its class, in time, and costs no memory. Real sockets."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from shared.core.storage import MissingFileError, StorageUnavailableError, TooLargeError
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from tests.contract.storage.line import Line
from tests.contract.storage.place import S3Place, s3_settings
from tests.contract.storage.seaweed import ADMIN, BUCKET, OTHER_BUCKET, USER

REF = f"s3://{BUCKET}/a/1.pdf"
HEAD = b"HTTP/1.1 200 OK\r\nlast-modified: Wed, 21 Oct 2026 07:28:00 GMT\r\n"


async def read(
    settings: StorageSettings, ref: str = REF, *, max_bytes: int = 1_000_000, timeout_sec: float = 20
) -> bytes:
    async with open_storage(settings) as storage:
        return await storage.read(ref, max_bytes=max_bytes, timeout_sec=timeout_sec)


Conduct = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(conduct: Conduct) -> AsyncIterator[str]:
    """A server of one conduct per connection, once its request's head was read; gives its URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # hung up on, or ended below
            await reader.readuntil(b"\r\n\r\n")
            await conduct(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("key", "bucket"),
    [
        pytest.param((USER[0], "wrong"), BUCKET, id="wrong secret"),
        pytest.param(("nobody", "wrong"), BUCKET, id="unknown key"),
        pytest.param(USER, OTHER_BUCKET, id="no permission"),
    ],
)
async def test_refused_credentials_are_transient_and_name_the_setting(
    s3_place: S3Place, key: tuple[str, str], bucket: str
) -> None:
    settings = s3_settings(s3_place.url, key=key, buckets=f"{BUCKET},{OTHER_BUCKET}")
    with pytest.raises(StorageUnavailableError, match="ULAK_STORAGE_S3_ACCESS_KEY_ID") as caught:
        await read(settings, f"s3://{bucket}/a/1.pdf")
    assert key[0] not in str(caught.value)
    assert key[1] not in str(caught.value)


async def test_a_missing_bucket_is_the_operator_s_and_a_missing_object_the_message_s(s3_place: S3Place) -> None:
    await s3_place.put("a/1.pdf", b"makes the bucket")
    settings = s3_settings(s3_place.url, key=ADMIN, buckets=f"{BUCKET},no-such-bucket")
    with pytest.raises(StorageUnavailableError, match="ULAK_STORAGE_S3_BUCKETS does not exist"):
        await read(settings, "s3://no-such-bucket/a/1.pdf")
    with pytest.raises(MissingFileError):
        await read(settings, s3_place.ref("a/2.pdf"))


async def test_a_server_that_is_down_is_told_soon() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connecting is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"no answer.*ULAK_STORAGE_S3_ENDPOINT"):
            await read(s3_settings(url))
        with pytest.raises(StorageUnavailableError, match="no answer"):
            async with open_storage(s3_settings(url, owned=f"s3://{BUCKET}/")) as storage:
                await storage.delete(REF)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("status", [b"500 Internal Server Error", b"503 Slow Down"])
async def test_a_server_in_trouble_is_transient(status: bytes) -> None:
    asked = 0

    async def conduct(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with serving(conduct) as url:
        with pytest.raises(StorageUnavailableError, match=f"status code: {status[:3].decode()}"):
            await read(s3_settings(url))
    assert asked == 3  # once, and two retries: the message's own are the patient ones


async def test_no_answer_in_time_ends_in_time(s3_place: S3Place) -> None:
    ref = await s3_place.put("a/1.pdf", b"x")
    async with Line.open(s3_place.url) as line:
        line.stop()
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"not read within 0\.5 s"):
            await read(s3_settings(line.url), ref, timeout_sec=0.5)
        assert time.monotonic() - started < 5


async def test_a_body_that_stalls_ends_in_time() -> None:
    hung_up = asyncio.Event()

    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-length: 100000\r\n\r\n" + b"x" * 500)
        await reader.read()  # until the client hangs up
        hung_up.set()

    async with serving(conduct) as url:
        with pytest.raises(StorageUnavailableError, match=r"not read within 0\.5 s"):
            await read(s3_settings(url), timeout_sec=0.5)
        async with asyncio.timeout(10):
            await hung_up.wait()


async def test_a_large_object_is_given_up_before_it_is_read(s3_place: S3Place) -> None:
    size = 64 * 1024 * 1024
    ref = await s3_place.put("large.bin", bytes(size))
    async with Line.open(s3_place.url) as line:
        with pytest.raises(TooLargeError):
            await read(s3_settings(line.url), ref, max_bytes=100_000)
        # What was on its way in sockets' buffers: no more can be in memory either.
        assert line.answered_bytes < size // 4


async def test_an_endless_body_of_unknown_size_is_hung_up_on() -> None:
    written = 0
    hung_up = asyncio.Event()

    async def conduct(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                await writer.drain()
                written += 65_536
        finally:
            hung_up.set()

    async with serving(conduct) as url:
        with pytest.raises(StorageUnavailableError):
            await read(s3_settings(url), max_bytes=100_000)
        async with asyncio.timeout(10):
            await hung_up.wait()
    assert written < 32 * 1024 * 1024
