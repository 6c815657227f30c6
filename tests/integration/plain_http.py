"""Clients of plain HTTP. httpx reads all of the world's certificates for each one: twenty milliseconds a client."""

import ssl
from typing import Any, Final

import httpx

_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It trusts nobody, so over TLS it would fail."""


def plain_client(**options: Any) -> httpx.AsyncClient:
    """As `httpx.AsyncClient`, for http:// alone."""
    return httpx.AsyncClient(verify=_NO_TLS, **options)
