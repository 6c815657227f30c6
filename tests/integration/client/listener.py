"""Small real HTTP servers that misbehave as networks and proxies do. One request a connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _listening(handle: _Handler) -> AsyncIterator[str]:
    handling: set[asyncio.Task[None]] = set()

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handle(reader, writer)
        writer.close()
        await writer.wait_closed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.add(asyncio.create_task(handled(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.gather(*handling)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of a request or an answer; its Content-Length says how long."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head, await reader.readexactly(int(lengths[0]) if lengths else 0)


@dataclass
class Scripted:
    """Answers each request with the next of `answers`, the last one again and again; keeps bodies and times."""

    answers: list[bytes]
    bodies: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await _message(reader)
        self.bodies.append(body)
        self.times.append(asyncio.get_running_loop().time())
        writer.write(self.answers[min(len(self.bodies), len(self.answers)) - 1])
        await writer.drain()


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[str, Scripted]]:
    """Its URL, and what it saw."""
    script = Scripted(list(answers))
    async with _listening(script.handle) as url:
        yield url, script


def answer(status: int, body: str = "{}", **headers: str) -> bytes:
    """The bytes of an answer; header names with _ for -."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body.encode())}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """Takes connections and what comes on them, and never answers."""

    async def swallow(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with _listening(swallow) as url:
        yield url


@dataclass
class Losing:
    """Hands requests on and waits for their answers, the first `lost` of which it drops with the connection."""

    url: str
    lost: int
    passed: list[bytes] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await _message(reader)
        host, port = urlsplit(self.url).hostname, urlsplit(self.url).port
        server_reader, server_writer = await asyncio.open_connection(host, port)
        server_writer.write(head + body)
        answer_head, answer_body = await _message(server_reader)
        server_writer.close()
        self.passed.append(answer_head.split(b"\r\n")[0])
        if len(self.passed) > self.lost:
            writer.write(answer_head + answer_body)
            await writer.drain()


@asynccontextmanager
async def losing(url: str, *, lost: int) -> AsyncIterator[tuple[str, Losing]]:
    """A way to `url` on which answers get lost; its own URL, and what the service behind it answered."""
    line = Losing(url, lost)
    async with _listening(line.handle) as listening:
        yield listening, line
