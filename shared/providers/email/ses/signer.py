"""AWS's Signature Version 4, by botocore; what may wait for AWS's metadata services runs in a thread of ours."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from shared.providers.email.account import CredentialError

_SERVICE: Final = "ses"
"""The name that SES's signatures are made for, with API v2 too."""


class Signer:
    """Signs requests with a key that is given, or with one that AWS's usual places have and renew."""

    def __init__(self, region: str, access_key_id: str | None, secret_access_key: str | None) -> None:
        self._region = region
        self._credentials: Any = None
        if access_key_id is not None:
            self._credentials = Credentials(access_key_id, secret_access_key)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ses-credentials")
        self._lock = asyncio.Lock()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers of a POST with its signature among them; it holds for five minutes. CredentialError."""
        request = AWSRequest("POST", url, headers=dict(headers), data=body)
        SigV4Auth(await self._current(), _SERVICE, self._region).add_auth(request)
        return {name.lower(): value for name, value in request.headers.items()}

    async def _current(self) -> Any:
        if self._is_old():
            async with self._lock:
                if self._is_old():
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._renew)
        return self._credentials.get_frozen_credentials()

    def _is_old(self) -> bool:
        credentials = self._credentials
        if credentials is None:
            return True
        return isinstance(credentials, RefreshableCredentials) and bool(credentials.refresh_needed())

    def _renew(self) -> None:
        try:
            if self._credentials is None:
                self._credentials = Session().get_credentials()
            if self._credentials is not None:
                self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise CredentialError("AWS's credentials cannot be renewed: check the role of this host") from error
        if self._credentials is None:
            raise CredentialError("no AWS credentials: set ULAK_SES_ACCESS_KEY_ID, or give this host a role")
