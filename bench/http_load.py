"""A closed-loop HTTP/1.1 client that costs little: N kept connections, one request in flight on each."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from bench.harness import WrongResultError


class _Connection(asyncio.Protocol):
    """Sends the next request when the answer to the last one is complete. Knows Content-Length only."""

    def __init__(self, requests: Iterator[bytes], check: Callable[[bytes, bytes], None]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answered = 0
        self._requests = requests
        self._check = check
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by behaviour, not by class
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        marker = head.lower().index(b"content-length:") + len(b"content-length:")
        if len(body) < int(head[marker:].split(b"\r\n", 1)[0]):
            return
        self._buffer = b""
        self.answered += 1
        try:
            self._check(head.split(b"\r\n", 1)[0], body)
        except WrongResultError as error:
            self.done.set_exception(error)
            return
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(WrongResultError(f"the server closed a connection ({exc})"))

    def _next(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._transport.write(request)


async def run_load(
    port: int, requests: Iterator[bytes], *, connections: int, check: Callable[[bytes, bytes], None]
) -> tuple[int, float]:
    """Send all requests over `connections`; count of answers and seconds. check(status line, body) may refuse one."""
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    made = await asyncio.gather(
        *(loop.create_connection(lambda: _Connection(requests, check), "127.0.0.1", port) for _ in range(connections))
    )
    await asyncio.gather(*(protocol.done for _, protocol in made))
    return sum(protocol.answered for _, protocol in made), time.perf_counter() - started


def post(path: str, secret: str, body: bytes) -> bytes:
    """One POST as bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
