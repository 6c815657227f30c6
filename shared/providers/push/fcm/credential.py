"""Access tokens of a service account, by firebase-admin and google-auth; blocking calls run in a thread of ours."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import requests
from firebase_admin import credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import Request

from shared.core.ports import UnsentError, UntrustedError

REFRESH_BEFORE: Final = timedelta(minutes=5)
"""Google's tokens live an hour; renewed while the old one still works."""
_TIMEOUT_SEC: Final = 5.0


class AccessToken:
    """The current OAuth access token, shared by all sends; one refresh at a time."""

    def __init__(self, service_account_file: Path, ca_file: Path | None) -> None:
        """Reads the key; ValueError if the file is no service account's."""
        certificate: Any = credentials.Certificate(str(service_account_file))  # type: ignore[no-untyped-call]  # untyped library
        self._credential: Any = certificate.get_credential()
        self._session = requests.Session()
        self._session.trust_env = False
        if ca_file is not None:
            self._session.verify = str(ca_file)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fcm-token")
        self._lock = asyncio.Lock()

    @property
    def project_id(self) -> str:
        return str(self._credential.project_id)

    async def current(self) -> str:
        """A token that lives; raises UnsentError (token endpoint not reachable) or UntrustedError (refused, TLS)."""
        if not self._lives():
            async with self._lock:
                if not self._lives():
                    await self._refresh()
        return str(self._credential.token)

    async def renewed(self, refused: str) -> str:
        """Another token after FCM refused this one; once for all requests refused together."""
        async with self._lock:
            if self._credential.token == refused:
                await self._refresh()
        return str(self._credential.token)

    def close(self) -> None:
        self._session.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _lives(self) -> bool:
        expiry: datetime | None = self._credential.expiry  # naive UTC, as google-auth keeps it
        return (
            self._credential.token is not None
            and expiry is not None
            and expiry.replace(tzinfo=UTC) - REFRESH_BEFORE > datetime.now(UTC)
        )

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._refresh_in_thread)
        except TransportError as error:
            if "certificate" in str(error).lower():
                raise UntrustedError("TLS failed at the token endpoint: check ULAK_FCM_CA_FILE") from error
            raise UnsentError("the token endpoint is not reachable") from error
        except GoogleAuthError as error:
            raise UntrustedError("the service account was refused: check ULAK_FCM_SERVICE_ACCOUNT_FILE") from error

    def _refresh_in_thread(self) -> None:
        request = Request(self._session)

        def with_timeout(*args: Any, **kwargs: Any) -> Any:
            return request(*args, **{**kwargs, "timeout": _TIMEOUT_SEC})

        self._credential.refresh(with_timeout)
