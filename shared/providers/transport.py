"""The transport that carries the load: pyreqwest (Rust reqwest), HTTP/2 over TLS (ADR: narrow transport port)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import ClientClosedError, PoolTimeoutError, RequestError

from shared.core.ports import Reply, ReplyLostError, Transport, TransportError, UnsentError, UntrustedError

CONNECT_TIMEOUT_SEC: Final = 5.0
"""Shorter than the shortest send deadline (OTP, 7 s), so that an unreachable provider is known as unsent."""
_CONNECTING: Final = "client error (connect)"
_TLS_MARKS: Final = ("certificate", "corrupt message", "received fatal alert")
_PING_SEC: Final = 60.0
"""Finds connections that died silently (a NAT that forgot them) before a message does."""


class ReqwestTransport:
    """`Transport` over one shared client; connections are kept, HTTP/2 streams share one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, timeout_sec: float) -> Reply:
        request = (
            self._client.post(url).headers(headers).body_bytes(body).timeout(timedelta(seconds=timeout_sec)).build()
        )
        try:
            response = await request.send()
            content = bytes(await response.bytes())
        except RequestError as error:
            raise _translated(error) from error
        return Reply(response.status, {name.lower(): value for name, value in response.headers.items()}, content)


def _translated(error: RequestError) -> TransportError:
    """What an error means for the request.

    The classes do not tell: to pyreqwest all before the reply's head is a ConnectError or ConnectTimeoutError, also
    a connection that was lost after the request was written. Only hyper's own cause does: it names the phase.
    """
    if isinstance(error, PoolTimeoutError | ClientClosedError):
        return UnsentError("no connection was free")
    causes = [cause["message"].lower() for cause in error.details["causes"] or ()]
    if _CONNECTING not in causes:
        return ReplyLostError(f"no reply: {causes[-1] if len(causes) > 1 else type(error).__name__}")
    if any(mark in causes[-1] for mark in _TLS_MARKS):
        return UntrustedError("TLS failed: check the provider's URL and its CA file")
    return UnsentError("no connection to the provider")


@asynccontextmanager
async def open_transport(
    *, ca_file: Path | None = None, http2: bool = True, pinned: tuple[str, str] | None = None
) -> AsyncIterator[Transport]:
    """A transport for the length of the block. ca_file: PEM of an authority trusted beside the well-known ones.

    http2 is offered by ALPN; a server without it gets HTTP/1.1. pinned: a host and the address it is at, which no
    name service is asked for; the certificate must still be the host's.
    """
    builder = (
        ClientBuilder()
        .http2(http2)
        .follow_redirects(enable=False)
        .no_proxy()
        .connect_timeout(timedelta(seconds=CONNECT_TIMEOUT_SEC))
        .http2_keep_alive_interval(timedelta(seconds=_PING_SEC))
        .http2_keep_alive_timeout(timedelta(seconds=_PING_SEC / 3))
        .http2_keep_alive_while_idle(enabled=True)
        .user_agent("ulak")
    )
    if ca_file is not None:
        builder = builder.add_root_certificate_pem(ca_file.read_bytes())  # noqa: ASYNC240  once, at start
    if pinned is not None:
        host, address = pinned
        builder = builder.resolve(host, address, 0)  # 0: the port of the URL
    async with builder.build() as client:
        yield ReqwestTransport(client)
