"""A TCP proxy in front of one broker that can stall, swallow answers and cut connections.

A client that learns the broker's address from its answers would go around the proxy, so the advertised address is
rewritten in every answer: host and port have the same length on the wire, nothing else changes.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """`stall` holds all traffic, `swallow` forwards requests and drops answers, `cut` ends every connection."""

    def __init__(self, upstream: str) -> None:
        self._host, port = upstream.rsplit(":", 1)
        self._port = int(port)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._swallowing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self.swallowed = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, upstream: str) -> AsyncIterator["Proxy"]:
        proxy = cls(upstream)
        server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield proxy
        finally:
            server.close()
            proxy._flowing.set()
            proxy.cut()
            for task in tuple(proxy._tasks):
                task.cancel()
            await asyncio.gather(*proxy._tasks, return_exceptions=True)

    def stall(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._swallowing = False
        self._flowing.set()

    def swallow(self) -> None:
        self._swallowing = True

    def cut(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Ended by `open`'s exit: a cancelled connection is no error of the stream server's callback.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
            self._writers |= {writer, upstream_writer}
            try:
                await asyncio.gather(self._requests(reader, upstream_writer), self._answers(upstream_reader, writer))
            finally:
                self._writers -= {writer, upstream_writer}
                writer.transport.abort()
                upstream_writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = self._host.encode()
        ours = int(self.address.rsplit(":", 1)[1])
        advertised, rewritten = host + struct.pack(">i", self._port), host + struct.pack(">i", ours)
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            await self._flowing.wait()
            if self._swallowing:
                self.swallowed += 1
                continue
            writer.write(struct.pack(">i", size) + frame.replace(advertised, rewritten))
            await writer.drain()
