"""A TCP line to one server, which counts what comes back and can be stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Line:
    """`stop` holds the answers from then on."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname, parts.port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.answered_bytes = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, upstream: str) -> AsyncIterator["Line"]:
        line = cls(upstream)
        server = await asyncio.start_server(line._accept, "127.0.0.1", 0)
        line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield line
        finally:
            server.close()
            for task in tuple(line._tasks):
                task.cancel()
            await asyncio.gather(*line._tasks, return_exceptions=True)

    def stop(self) -> None:
        self._flowing.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Ended by `open`'s exit: a cancelled connection is no error of the stream server's callback.
        with suppress(OSError, asyncio.CancelledError):
            upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
            try:
                await asyncio.gather(self._requests(reader, upstream_writer), self._answers(upstream_reader, writer))
            finally:
                writer.transport.abort()
                upstream_writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._flowing.wait()
            self.answered_bytes += len(data)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
