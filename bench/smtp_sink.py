"""An SMTP server that only counts. `python -m bench.smtp_sink SMTP_PORT COUNT_PORT`.

Any connection to the second port is answered with the number of mails and of different Message-IDs, and closed.
"""

import asyncio
import re
import sys
from typing import Final, cast

import uvloop

_MESSAGE_ID: Final = re.compile(rb"\r\nMessage-ID: <([^>]+)>")
_seen: dict[bytes, int] = {}


class Sink(asyncio.Protocol):
    """One connection; commands may come pipelined."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._in_data = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(b"220 sink ESMTP\r\n")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        out = bytearray()
        while (end := self._buffer.find(b"\r\n.\r\n" if self._in_data else b"\r\n")) >= 0:
            part = bytes(self._buffer[:end])
            del self._buffer[: end + (5 if self._in_data else 2)]
            out += self._mail(part) if self._in_data else self._command(part)
        if out and self._transport is not None:
            self._transport.write(bytes(out))

    def _mail(self, content: bytes) -> bytes:
        self._in_data = False
        found = _MESSAGE_ID.search(content)
        reference = found[1] if found else b""
        _seen[reference] = _seen.get(reference, 0) + 1
        return b"250 2.0.0 Ok: queued as 1\r\n"

    def _command(self, line: bytes) -> bytes:
        verb = line[:4].upper()
        if verb == b"DATA":
            self._in_data = True
            return b"354 go\r\n"
        if verb == b"EHLO":
            return b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"
        return b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n"


async def count(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"%d %d\n" % (sum(_seen.values()), len(_seen)))
    writer.close()


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", int(sys.argv[1]))
    await asyncio.start_server(count, "127.0.0.1", int(sys.argv[2]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
