"""Ulak's internal API, for callers without a database transaction. Needs `ulak-client[http]`."""

try:
    import httpx as _httpx  # noqa: F401  asked for here, so that the remedy is told
    import tenacity as _tenacity  # noqa: F401
except ImportError as error:
    raise ImportError("the HTTP client needs httpx and tenacity: pip install 'ulak-client[http]'") from error

from ulak_client.http.answer import Accepted, AcceptedEmail, BatchResult, Cancelled
from ulak_client.http.client import AsyncUlakClient, UlakClient
from ulak_client.http.error import FieldError, TryLaterError, UlakError
from ulak_client.http.message import Notification, OneTimePassword, Recipient
from ulak_client.http.retry import RetryPolicy

__all__ = [
    "Accepted",
    "AcceptedEmail",
    "AsyncUlakClient",
    "BatchResult",
    "Cancelled",
    "FieldError",
    "Notification",
    "OneTimePassword",
    "Recipient",
    "RetryPolicy",
    "TryLaterError",
    "UlakClient",
    "UlakError",
]
