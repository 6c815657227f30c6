"""The same port over httpx: the reference that shows what the contract suite expects, slow but familiar."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from shared.core.ports import Reply, ReplyLostError, Transport, UnsentError, UntrustedError
from shared.providers.deadline import bounded
from shared.providers.transport import CONNECT_TIMEOUT_SEC


class HttpxTransport:
    """`Transport` over one httpx client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, timeout_sec: float) -> Reply:
        timeout = httpx.Timeout(timeout_sec, connect=min(CONNECT_TIMEOUT_SEC, timeout_sec))
        try:
            response = await bounded(
                self._client.post(url, headers=dict(headers), content=body, timeout=timeout), timeout_sec
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            if _is_tls(error):
                raise UntrustedError("TLS failed: check the provider's URL and its CA file") from error
            raise UnsentError("no connection to the provider") from error
        except (httpx.HTTPError, TimeoutError) as error:
            raise ReplyLostError(f"no reply: {type(error).__name__}") from error
        return Reply(response.status_code, dict(response.headers), response.content)


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@asynccontextmanager
async def open_httpx_transport(*, ca_file: Path | None = None, http2: bool = True) -> AsyncIterator[Transport]:
    """As `shared.providers.transport.open_transport`."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    async with httpx.AsyncClient(
        http2=http2, verify=context, follow_redirects=False, trust_env=False, transport=None
    ) as client:
        yield HttpxTransport(client)
