"""One contract, two transports: what a caller may conclude from a missing reply. Real sockets."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ops.simulator import credential
from shared.core.ports import ReplyLostError, Transport, UnsentError, UntrustedError
from shared.providers.httpx_transport import open_httpx_transport
from shared.providers.transport import open_transport

Conduct = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Opener = Callable[..., AbstractAsyncContextManager[Transport]]

each = pytest.mark.parametrize("opener", [open_transport, open_httpx_transport], ids=["pyreqwest", "httpx"])


@asynccontextmanager
async def server(
    conduct: Conduct, context: ssl.SSLContext | None = None, *, host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """A server of one conduct per connection; gives its base URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await conduct(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client has gone, as it should in these tests
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, host, 0, ssl=context)
    scheme = "http" if context is None else "https"
    yield f"{scheme}://{host}:{listening.sockets[0].getsockname()[1]}"
    listening.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def request(reader: asyncio.StreamReader) -> bytes:
    """One whole request: head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


def reply(status: bytes = b"200 OK", body: bytes = b"{}", extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\ncontent-length: %d\r\n" % len(body) + extra + b"\r\n" + body


async def post(transport: Transport, url: str, *, timeout_sec: float = 5.0) -> object:
    headers: Mapping[str, str] = {"content-type": "application/json", "x-mark": "1"}
    return await transport.post(url, headers, b'{"a":"\xc5\x9f"}', timeout_sec=timeout_sec)


@each
async def test_request_and_reply_travel_unchanged(opener: Opener) -> None:
    seen: list[bytes] = []

    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(reply(b"429 Too Many", b'{"reason":"x"}', b"Retry-After: 7\r\nX-A: 1\r\nX-A: 2\r\n"))
        await writer.drain()

    async with server(conduct) as url, opener() as transport:
        answer = await transport.post(url + "/3/x?y=1", {"x-mark": "1"}, b"body \xc5\x9f", timeout_sec=5.0)
    assert seen[0].startswith(b"POST /3/x?y=1 HTTP/1.1\r\n")
    assert seen[0].endswith(b"body \xc5\x9f")
    assert b"x-mark: 1" in seen[0].lower()
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (429, b'{"reason":"x"}', "7")


@each
async def test_redirects_are_replies(opener: Opener) -> None:
    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(reply(b"307 Temporary Redirect", b"", b"location: http://127.0.0.1:1/\r\n"))
        await writer.drain()

    async with server(conduct) as url, opener() as transport:
        answer = await transport.post(url, {}, b"x", timeout_sec=5.0)
    assert answer.status == 307


async def _read_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request(reader)


async def _read_and_reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request(reader)
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _half_a_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-le")
    await writer.drain()


async def _half_a_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
    await writer.drain()


async def _other_protocol(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request(reader)
    writer.write(b"220 mail.example ESMTP\r\n\r\n")
    await writer.drain()


async def _close_at_once(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    return


@each
@pytest.mark.parametrize(
    "conduct",
    [_read_and_close, _read_and_reset, _half_a_head, _half_a_body, _other_protocol, _close_at_once],
    ids=["closed", "reset", "half-head", "half-body", "other-protocol", "before-read"],
)
async def test_what_may_have_been_processed_is_a_lost_reply(opener: Opener, conduct: Conduct) -> None:
    """Also a connection closed before it was read: from here it looks the same."""
    async with server(conduct) as url, opener() as transport:
        with pytest.raises(ReplyLostError):
            await post(transport, url)


@each
async def test_request_is_written_once_whatever_becomes_of_it(opener: Opener) -> None:
    requests: list[bytes] = []

    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await request(reader))
        if len(requests) == 1:
            writer.write(reply())
            await writer.drain()
            requests.append(await request(reader))

    async with server(conduct) as url, opener() as transport:
        await post(transport, url)
        with pytest.raises(ReplyLostError):
            await post(transport, url)
    assert len(requests) == 2


@each
@pytest.mark.parametrize("at", ["silence", "half-body"])
async def test_deadline_is_kept_and_leaves_the_reply_lost(opener: Opener, at: str) -> None:
    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        if at == "half-body":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        await asyncio.Event().wait()

    async with server(conduct) as url, opener() as transport:
        started = time.monotonic()
        with pytest.raises(ReplyLostError):
            await post(transport, url, timeout_sec=0.3)
    assert time.monotonic() - started < 3


@each
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "https://127.0.0.1:1/"])
async def test_refused_is_unsent(opener: Opener, url: str) -> None:
    async with opener() as transport:
        with pytest.raises(UnsentError) as caught:
            await post(transport, url)
    assert not isinstance(caught.value, UntrustedError)
    assert "127.0.0.1" not in str(caught.value)


@each
async def test_foreign_certificate_is_untrusted_and_a_ca_file_trusts_it(opener: Opener, tmp_path: Path) -> None:
    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(reply())
        await writer.drain()

    tls = credential.tls(tmp_path, datetime.now(UTC))
    async with server(conduct, tls.server_context()) as url:
        async with opener() as transport:
            with pytest.raises(UntrustedError):
                await post(transport, url)
        async with opener(ca_file=tls.ca_file) as transport:
            assert (await transport.post(url, {}, b"x", timeout_sec=5.0)).status == 200


@each
async def test_plain_server_behind_an_https_address_is_untrusted(opener: Opener) -> None:
    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply(b"400 Bad Request"))
        await writer.drain()

    async with server(conduct) as url, opener() as transport:
        with pytest.raises(UntrustedError):
            await post(transport, url.replace("http://", "https://"))


async def test_a_pinned_host_is_found_at_its_address_alone_and_must_still_be_itself(tmp_path: Path) -> None:
    """P12: whoever checked an address calls that address, whatever the name leads to a moment later."""
    seen: list[bytes] = []

    async def conduct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(reply(b"201 Created"))
        await writer.drain()

    tls = credential.tls(tmp_path, datetime.now(UTC))
    async with server(conduct, tls.server_context(), host="127.0.0.2") as url:
        port = url.rpartition(":")[2]
        async with open_transport(ca_file=tls.ca_file, pinned=("localhost", "127.0.0.2")) as transport:
            assert (await transport.post(f"https://localhost:{port}/x", {}, b"x", timeout_sec=5.0)).status == 201
        async with open_transport(ca_file=tls.ca_file, pinned=("push.example", "127.0.0.2")) as transport:
            with pytest.raises(UntrustedError):
                await transport.post(f"https://push.example:{port}/x", {}, b"x", timeout_sec=5.0)
    assert len(seen) == 1
