"""Twilio that only counts, over plain HTTP/1.1. `python -m bench.http1_sink PORT`.

Remembers each request's StatusCallback (our reference); `GET /count` tells how many came and how many were different.
"""

import asyncio
import re
import sys
from typing import Final, cast

import httptools
import orjson
import uvloop

_REFERENCE: Final = re.compile(rb"StatusCallback=([^&]+)")
_CREATED: Final = b'{"sid":"SM0123456789abcdef0123456789abcdef"}'
_seen: dict[bytes, int] = {}


class Sink(asyncio.Protocol):
    """One kept connection, one request after the other."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            status, body = b"200 OK", orjson.dumps({"requests": sum(_seen.values()), "distinct": len(_seen)})
        else:
            status, body = b"201 Created", _CREATED
            found = _REFERENCE.search(self._body)
            reference = found[1] if found else b""
            _seen[reference] = _seen.get(reference, 0) + 1
        self._body.clear()
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
