"""A request before its body was read, and the body within limits of size and time.

For ASGI middleware that stands before FastAPI, which reads a body before its dependencies run: a caller without a
credential must not be able to make us read one (A3, A4).
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from shared.runtime.metrics import REQUESTS
from shared.web.problem import BODY_TOO_LARGE, BODY_TOO_SLOW, UNSUPPORTED_MEDIA_TYPE, Problem

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose requests carry a body, unless the route says otherwise."""

_TRACEPARENT: Final = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, version 00; anything else is not passed on."""
_KEPT_OPEN_BYTES: Final = 64 * 1024
"""A refused body up to this size is let run out, so that the connection can go on; above, it is closed."""
_LINGER_BYTES: Final = 8 * 1024 * 1024
_LINGER_SEC: Final = 2.0
"""How much of a refused body is thrown away, and for how long, before the connection is closed."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Those that decide whether a request is let in. traceparent only where it is a valid one."""

    authorization: str
    content_type: str
    content_length: int | None
    traceparent: str | None
    origin: str

    @classmethod
    def read(cls, scope: Scope) -> "RequestHeaders":
        authorization = content_type = origin = ""
        content_length: int | None = None
        traceparent: str | None = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == b"content-type":
                content_type = value.decode("latin-1")
            elif name == b"content-length" and value.isdigit():
                content_length = int(value[:20])
            elif name == b"traceparent" and _TRACEPARENT.fullmatch(value):
                traceparent = value.decode()
            elif name == b"origin":
                origin = value.decode("latin-1")
        return cls(authorization, content_type, content_length, traceparent, origin)

    @property
    def bearer(self) -> str | None:
        """The credential of `Authorization: Bearer ...`; None for another scheme or none."""
        scheme, _, secret = self.authorization.partition(" ")
        return secret.strip() if scheme.lower() == "bearer" else None

    @property
    def media_type(self) -> str:
        """Lower case, without parameters; empty where none was sent."""
        return self.content_type.partition(";")[0].strip().lower()


def declared(headers: RequestHeaders, limit: int, *, media_type: str | None = JSON) -> Problem | None:
    """What the headers alone rule out: another media type, where one is wanted, and what is too large."""
    if media_type is not None and headers.media_type != media_type:
        return UNSUPPORTED_MEDIA_TYPE(f"Send the body with `Content-Type: {media_type}`.")
    if headers.content_length is not None and headers.content_length > limit:
        return _too_large(limit)
    return None


async def read_body(receive: Receive, *, limit: int, timeout_sec: float) -> bytes | Problem | None:
    """The whole body, never holding more than `limit` bytes nor waiting longer; None if the caller hung up."""
    try:
        async with asyncio.timeout(timeout_sec):
            return await _read(receive, limit)
    except TimeoutError:
        return BODY_TOO_SLOW(f"The body was not complete after {timeout_sec:g} s. Send it faster.")


def must_close(method: str, headers: RequestHeaders) -> bool:
    """Whether to close after a refusal whose body was not read, instead of waiting for a large one to run out."""
    return method in WITH_BODY and (headers.content_length is None or headers.content_length > _KEPT_OPEN_BYTES)


async def refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and where the connection is to be closed let the rest of the body run out for a moment.

    Closing while the caller still sends would reset the connection, and take the answer that says why with it.
    """
    if response.headers.get("connection") != "close":
        await response(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SEC):
            size = 0
            while size < _LINGER_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def counted(send: Send, route: str) -> Send:
    """`send`, with every answer counted under this route: a bounded name, ids folded."""

    async def count(message: Message) -> None:
        if message["type"] == "http.response.start":
            REQUESTS.labels(route, str(message["status"])).inc()
        await send(message)

    return count


async def _read(receive: Receive, limit: int) -> bytes | Problem | None:
    message = await receive()
    first: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False) and len(first) <= limit:
        return first
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)
        message = await receive()


def _too_large(limit: int) -> Problem:
    return BODY_TOO_LARGE(f"The body is larger than {limit} bytes. Send less, or split the batch.")
