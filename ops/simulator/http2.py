"""An HTTP/2 server over TLS whose frames can be bent: GOAWAY, RST_STREAM, lowered SETTINGS, cuts at any point.

Framing, HPACK and flow-control accounting are h2's; what is done with them is here (RFC 9113).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, cast

import structlog
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from ops.simulator.connections import OpenConnections
from ops.simulator.exchange import Connection, Handler, Reply, Request
from ops.simulator.fault import Drop, GoAway

STREAM_WINDOW_BYTES: Final = 256 * 1024
CONNECTION_WINDOW_BYTES: Final = 4 * 1024 * 1024
MAX_BODY_BYTES: Final = 1024 * 1024
"""Far above the 4 KiB of APNs and FCM, so that their own refusals are seen; beyond it the stream is reset."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Stream:
    headers: tuple[tuple[str, str], ...]
    body: bytearray = field(default_factory=bytearray)
    request: Request | None = None
    task: asyncio.Task[None] | None = None
    unsent: bytes = b""
    """What the client's flow-control window has not let through yet."""


class Http2Protocol(asyncio.Protocol):
    """One connection: its streams are answered concurrently, each when its handler is done."""

    def __init__(self, handler: Handler, connections: OpenConnections, max_concurrent_streams: int) -> None:
        self._handler = handler
        self._connections = connections
        self._connection = Connection()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, _Stream] = {}
        self._goaway_last: int | None = None
        self._flush_planned = False
        self._h2 = H2Connection(
            H2Configuration(
                client_side=False,
                validate_outbound_headers=False,  # our own headers, known to be right; validation costs a third
                normalize_outbound_headers=False,
            )
        )
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: max_concurrent_streams,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: 64 * 1024,
            },
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's transports have its methods, not its type
        self._transport = stream
        self._connections.add(stream)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's port
        if self._transport is not None:
            self._connections.discard(self._transport)
        self._transport = None
        for stream in self._streams.values():
            if stream.task is not None:
                stream.task.cancel()
        self._streams.clear()

    def pause_writing(self) -> None:
        # A client that reads no replies gets no more requests read.
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._flush()  # h2 has queued the GOAWAY that names the error
            self._close()
            return
        self._handle(events)
        self._plan_flush()

    def _handle(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, RequestReceived):
                self._open(event)
            elif isinstance(event, DataReceived):
                self._receive(event)
            elif isinstance(event, StreamEnded):
                self._dispatch(event.stream_id)
            elif isinstance(event, StreamReset):
                self._forget(event.stream_id)
            elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
                self._send_unsent()
            elif isinstance(event, ConnectionTerminated):
                self._close()  # the client wants no more replies, and h2 takes none once it has seen a GOAWAY

    def _open(self, event: RequestReceived) -> None:
        if self._goaway_last is not None and event.stream_id > self._goaway_last:
            return
        headers = tuple((_text(name), _text(value)) for name, value in event.headers)
        self._streams[event.stream_id] = _Stream(headers)

    def _receive(self, event: DataReceived) -> None:
        self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.body += event.data
        if len(stream.body) > MAX_BODY_BYTES:
            self._h2.reset_stream(event.stream_id, ErrorCodes.ENHANCE_YOUR_CALM)
            self._forget(event.stream_id)

    def _dispatch(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        pseudo = {name: value for name, value in stream.headers if name.startswith(":")}
        path, _, query = pseudo.get(":path", "/").partition("?")
        stream.request = Request(
            method=pseudo.get(":method", ""),
            path=path,
            query=query,
            headers=tuple(pair for pair in stream.headers if not pair[0].startswith(":")),
            body=bytes(stream.body),
            connection=self._connection,
            stream_id=stream_id,
        )
        stream.task = self._loop.create_task(self._serve(stream_id, stream.request))

    async def _serve(self, stream_id: int, request: Request) -> None:
        try:
            reply = await self._handler(request)
        except Exception:  # noqa: BLE001 - a failure of ours is told, and the connection goes on
            _log.exception("simulator_handler_failed")
            reply = Reply(500)
        if self._transport is None or stream_id not in self._streams:
            return
        self._streams[stream_id].task = None
        self._answer(stream_id, reply)
        self._plan_flush()

    def _answer(self, stream_id: int, reply: Reply) -> None:
        if reply.drop in {Drop.BEFORE_READ, Drop.AFTER_ACCEPT}:
            self._abort()
            return
        http2 = reply.http2
        if http2 is not None and http2.max_concurrent_streams is not None:
            self._h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: http2.max_concurrent_streams})
        if http2 is not None and http2.goaway is not None:
            self._go_away(stream_id, http2.goaway)
            if stream_id not in self._streams:
                return
        if http2 is not None and http2.reset_stream is not None:
            self._h2.reset_stream(stream_id, http2.reset_stream)
            self._forget(stream_id)
            return
        headers = [(":status", str(reply.status)), *reply.headers]
        if reply.drop is Drop.MID_REPLY:
            self._h2.send_headers(stream_id, headers)
            self._h2.send_data(stream_id, reply.body[: len(reply.body) // 2])
            self._flush()
            self._close()
            return
        if not reply.body:
            self._h2.send_headers(stream_id, headers, end_stream=True)
            self._done(stream_id)
            return
        self._h2.send_headers(stream_id, headers)
        self._streams[stream_id].unsent = reply.body
        self._send(stream_id)

    def _send(self, stream_id: int) -> None:
        """Send as much of a body as the client's windows and frame size let through; the rest waits for an update."""
        stream = self._streams[stream_id]
        while stream.unsent:
            room = min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)
            if room <= 0:
                return
            chunk, stream.unsent = stream.unsent[:room], stream.unsent[room:]
            self._h2.send_data(stream_id, chunk, end_stream=not stream.unsent)
        self._done(stream_id)

    def _send_unsent(self) -> None:
        for stream_id in [stream_id for stream_id, stream in self._streams.items() if stream.unsent]:
            self._send(stream_id)

    def _go_away(self, stream_id: int, goaway: GoAway) -> None:
        """Announce the last processed stream; h2's own GOAWAY would end the streams below it as well."""
        self._flush()
        last = goaway.last_for(stream_id)
        frame = GoAwayFrame(0)
        frame.last_stream_id = last
        frame.error_code = goaway.error_code
        frame.additional_data = goaway.debug_data.encode()
        if self._transport is not None:
            self._transport.write(frame.serialize())
        self._goaway_last = last if self._goaway_last is None else min(last, self._goaway_last)
        for refused in [open_id for open_id in self._streams if open_id > last]:
            request = self._streams[refused].request
            if request is not None and refused != stream_id:
                self._handler.refuse(request)
            self._forget(refused)
        self._close_if_done()

    def _forget(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is not None and stream.task is not None:
            stream.task.cancel()
        self._close_if_done()

    def _done(self, stream_id: int) -> None:
        self._streams.pop(stream_id, None)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._goaway_last is not None and not self._streams:
            self._flush()
            self._close()

    def _plan_flush(self) -> None:
        """Once per turn of the loop: replies of many streams leave in one write."""
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        if self._transport is None:
            return
        data = self._h2.data_to_send()
        if data:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _text(header: bytes | str) -> str:
    """Header bytes as text; what is no UTF-8 is replaced, so that it can be recorded and refused."""
    return header if isinstance(header, str) else bytes(header).decode("utf-8", errors="replace")
