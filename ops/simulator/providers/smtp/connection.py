"""The bytes of one SMTP connection: lines and mail bodies in, replies out, TLS in between."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, cast

from ops.simulator.connections import OpenConnections
from ops.simulator.providers.smtp.command import SmtpReply

MAX_LINE_BYTES: Final = 12288
"""RFC 4954 section 4.5.3.1.4 asks for this much on AUTH; other commands need less."""
READ_AHEAD_BYTES: Final = 256 * 1024
"""Pipelined input beyond it waits in the socket."""
_END_OF_MAIL: Final = b"\r\n.\r\n"


class ConnectionEndedError(Exception):
    """The connection is gone, whoever ended it; the dialogue stops where it stands."""


class LineTooLongError(Exception):
    """A command line is over `MAX_LINE_BYTES`."""


class SmtpConnection(asyncio.Protocol):
    """Starts `serve(connection)` as a task when a client connects.

    Replies are gathered and leave in one write when nothing complete is left to read, so that a pipelined group of
    commands costs one packet each way (RFC 2920).
    """

    def __init__(self, serve: Callable[["SmtpConnection"], Awaitable[None]], connections: OpenConnections) -> None:
        self._serve = serve
        self._connections = connections
        self._socket: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._out = bytearray()
        self._arrived = asyncio.Event()
        self._lost = asyncio.Event()
        self._in_body = False
        self._task: asyncio.Task[None] | None = None
        self.secure = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's transports have its methods, not its type
        self._socket = self._transport = stream
        self._connections.add(stream)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's port
        if self._socket is not None:
            self._connections.discard(self._socket)
        self._lost.set()
        self._arrived.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()
        if not self._in_body and len(self._buffer) > READ_AHEAD_BYTES and self._transport is not None:
            self._transport.pause_reading()

    async def _run(self) -> None:
        try:
            await self._serve(self)
        except ConnectionEndedError:
            self.abort()
        else:
            self.close()

    async def line(self) -> bytes:
        """The next line without its line end. Raises ConnectionEndedError, LineTooLongError."""
        while True:
            end = self._buffer.find(b"\n", 0, MAX_LINE_BYTES + 2)
            if end >= 0:
                line = bytes(self._buffer[:end]).removesuffix(b"\r")
                del self._buffer[: end + 1]
                return line
            if len(self._buffer) > MAX_LINE_BYTES:
                raise LineTooLongError
            await self._more()

    async def body(self, max_bytes: int) -> bytes | None:
        """What follows 354 up to the line with a single dot, dots still doubled, each line ended; None if over the
        limit, after all of it was read and thrown away. Only CR LF . CR LF ends it, so no mail can be smuggled in.
        """
        too_big, searched = False, 0
        self._in_body = True
        try:
            while True:
                if not too_big and self._buffer.startswith(b".\r\n"):
                    del self._buffer[:3]
                    return b""
                end = self._buffer.find(_END_OF_MAIL, searched)
                if end >= 0:
                    raw = bytes(self._buffer[: end + 2])
                    del self._buffer[: end + len(_END_OF_MAIL)]
                    return None if too_big or len(raw) > max_bytes else raw
                if len(self._buffer) > max_bytes + len(_END_OF_MAIL):
                    too_big = True
                    del self._buffer[: -len(_END_OF_MAIL)]
                searched = max(len(self._buffer) - len(_END_OF_MAIL) + 1, 0)
                await self._more()
        finally:
            self._in_body = False

    async def _more(self) -> None:
        self.flush()
        if self._lost.is_set() or self._transport is None:
            raise ConnectionEndedError
        self._transport.resume_reading()
        self._arrived.clear()
        await self._arrived.wait()
        if self._lost.is_set():
            raise ConnectionEndedError

    def write(self, reply: SmtpReply) -> None:
        """Add a reply to what goes out next."""
        self._out += reply.encoded()

    def write_part(self, reply: SmtpReply) -> None:
        """Send half of a reply and end the connection."""
        encoded = reply.encoded()
        self._out += encoded[: len(encoded) // 2]
        self.close()
        raise ConnectionEndedError

    def flush(self) -> None:
        if self._out and self._transport is not None and not self._lost.is_set():
            self._transport.write(bytes(self._out))
        self._out.clear()

    async def sleep(self, seconds: float) -> None:
        """Wait without a reply. Raises ConnectionEndedError as soon as the client has gone."""
        self.flush()
        try:
            await asyncio.wait_for(self._lost.wait(), seconds)
        except TimeoutError:
            return
        raise ConnectionEndedError

    async def start_tls(self, ready: SmtpReply, context: ssl.SSLContext) -> None:
        """Answer STARTTLS and shake hands. Raises ConnectionEndedError if the client will not.

        What the client sent ahead in the clear is thrown away: it may come from someone in the middle (RFC 3207
        section 4.2).
        """
        if self._transport is None:
            raise ConnectionEndedError
        self._buffer.clear()
        self.write(ready)
        self.flush()
        try:
            upgraded = await asyncio.get_running_loop().start_tls(self._transport, self, context, server_side=True)
        except OSError as error:
            raise ConnectionEndedError from error
        if upgraded is None:
            raise ConnectionEndedError
        self._transport = upgraded
        self.secure = True

    def close(self) -> None:
        """End the connection after what was written has left."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection, unless it is being closed already."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
