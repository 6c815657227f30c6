"""An HTTP/1.1 server small enough to be cut at any point, which servers of frameworks do not allow."""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final, cast

import httptools
import structlog

from ops.simulator.connections import OpenConnections
from ops.simulator.exchange import Connection, Handler, Reply, Request, json_reply
from ops.simulator.fault import Drop

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Above what any of the simulated HTTP APIs takes (SES: 40 MB, a third more in base64)."""
MAX_QUEUED_REQUESTS: Final = 64
"""Pipelined requests read ahead; more pause the socket."""

_log = structlog.get_logger(__name__)


class Http1Protocol(asyncio.Protocol):
    """One connection: requests are answered one after the other, in order (RFC 9112 section 9.3)."""

    def __init__(self, handler: Handler, connections: OpenConnections) -> None:
        self._handler = handler
        self._connections = connections
        self._connection = Connection()
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()
        self._too_large = False
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's transports have its methods, not its type
        self._transport = stream
        self._connections.add(stream)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's port
        if self._transport is not None:
            self._connections.discard(self._transport)
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._close_with(400, "The request is not HTTP/1.1.")

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", [], bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if ("expect", "100-continue") in self._headers and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if self._too_large:
            return
        self._body += body
        if len(self._body) > MAX_BODY_BYTES:
            self._too_large = True
            self._body = bytearray()
            self._close_with(413, f"The body is over {MAX_BODY_BYTES} bytes.")

    def on_message_complete(self) -> None:
        if self._too_large:
            return
        path, _, query = self._url.decode("latin-1").partition("?")
        request = Request(
            method=self._parser.get_method().decode("ascii"),
            path=path,
            query=query,
            headers=tuple(self._headers),
            body=bytes(self._body),
            connection=self._connection,
        )
        self._queue.append((request, self._parser.should_keep_alive()))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        elif len(self._queue) >= MAX_QUEUED_REQUESTS and self._transport is not None:
            self._transport.pause_reading()

    async def _work(self) -> None:
        while self._queue and not self._ended:
            request, keep_alive = self._queue.popleft()
            try:
                reply = await self._handler(request)
            except Exception:  # noqa: BLE001 - a failure of ours is told, and the connection goes on
                _log.exception("simulator_handler_failed")
                reply = json_reply(500, {"error": "the simulator failed, see its log"})
            self._write(reply, keep_alive)
            if self._transport is not None and not self._ended:
                self._transport.resume_reading()
        self._task = None

    def _write(self, reply: Reply, keep_alive: bool) -> None:
        transport = self._transport
        if transport is None or self._ended:
            return
        self._ended = reply.drop is not None or not keep_alive
        if reply.drop in {Drop.BEFORE_READ, Drop.AFTER_ACCEPT}:
            transport.abort()
            return
        head = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}"]
        head += [f"{name}: {value}" for name, value in reply.headers if name != "content-length"]
        if reply.status != HTTPStatus.NO_CONTENT:
            head.append(f"content-length: {len(reply.body)}")
        if not keep_alive:
            head.append("connection: close")
        encoded = ("\r\n".join(head) + "\r\n\r\n").encode("latin-1", errors="replace") + reply.body
        if reply.drop is Drop.MID_REPLY:
            transport.write(encoded[: max(len(encoded) - len(reply.body) // 2 - 1, 1)])
            transport.close()
            return
        transport.write(encoded)
        if not keep_alive:
            transport.close()

    def _close_with(self, status: int, detail: str) -> None:
        self._write(json_reply(status, {"error": detail}), keep_alive=False)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
