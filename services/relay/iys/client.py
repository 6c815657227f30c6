"""Calls to the registry: one token for all of them, renewed before it ends, and a rest when it asks for one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson

from services.relay.iys.error import RegistryError
from services.relay.iys.permission import (
    Changes,
    Enqueued,
    Permission,
    Refusal,
    Taken,
    read_changes,
    read_enqueued,
    read_refusal,
    read_results,
    says_the_same,
)
from services.relay.iys.settings import IysSettings
from shared.providers.retry_after import retry_after_sec

_RENEW_BEFORE_SEC: Final = 60.0
_BUSY_SEC: Final = 5.0
"""How long we rest after 429 without Retry-After."""


class IysClient:
    """One brand's. Safe for concurrent use; every method raises RegistryError where the registry cannot be asked."""

    def __init__(self, http: httpx.AsyncClient, settings: IysSettings, *, monotonic: Callable[[], float]) -> None:
        self._http = http
        self._settings = settings
        self._monotonic = monotonic
        self._path = f"/sps/{settings.code}/brands/{settings.brand_code}/consents"
        self._token = ""
        self._token_ends = float("-inf")
        self._logging_in = asyncio.Lock()
        self._rest_until = float("-inf")

    async def add(self, permission: Permission) -> Taken | Refusal:
        """`POST .../consents`."""
        status, body = await self._call("POST", "", permission.body())
        return Taken() if status == 200 else read_refusal(body)

    async def add_all(self, permissions: Sequence[Permission]) -> Enqueued | Refusal:
        """`POST .../consents/request`. A Refusal is of the request as a whole: some line of it is malformed."""
        status, body = await self._call("POST", "/request", [permission.body() for permission in permissions])
        if status != 200:
            return read_refusal(body)
        enqueued = read_enqueued(body, len(permissions))
        if enqueued is None:
            raise RegistryError("the registry took a batch in without saying how to ask for its lines")
        return enqueued

    async def results(self, request_id: str) -> Mapping[str, Taken | Refusal] | None:
        """`GET .../consents/request/{requestId}`: lines that are decided; None: it does not know the request."""
        status, body = await self._call("GET", f"/request/{quote(request_id, safe='')}", unknown=True)
        return None if status == 404 else read_results(body)

    async def stands(self, permission: Permission) -> bool:
        """`POST .../consents/status`: whether the registry says already what the line says."""
        status, body = await self._call("POST", "/status", permission.key(), unknown=True)
        return status == 200 and says_the_same(body, permission)

    async def changes(self, after: str) -> Changes:
        """`GET .../consents/changes?source=IYS`: what citizens changed by the registry's own ways, the oldest first."""
        behind = f"&after={quote(after, safe='')}" if after else ""
        _, body = await self._call("GET", f"/changes?source=IYS{behind}")
        return read_changes(body, after)

    async def _call(self, method: str, path: str, body: Any = None, *, unknown: bool = False) -> tuple[int, Any]:
        """Status and body: 200, 400 or 422, and 404 where `unknown`. A token that is refused is renewed once."""
        token = await self._valid_token()
        response = await self._send(method, f"{self._path}{path}", body, token)
        if response.status_code == 401:
            self._forget(token)
            response = await self._send(method, f"{self._path}{path}", body, await self._valid_token())
        status = response.status_code
        if status in {200, 201}:
            return 200, _json(response)
        if status in {400, 422} or (unknown and status == 404):
            return status, _json(response)
        if status in {401, 403, 404}:
            raise RegistryError(
                f"the registry answers {status}: check ULAK_IYS_USERNAME, _PASSWORD, _CODE and _BRAND_CODE"
            )
        raise self._busy(response)

    async def _valid_token(self) -> str:
        if self._monotonic() >= self._token_ends:
            async with self._logging_in:
                if self._monotonic() >= self._token_ends:
                    await self._log_in()
        return self._token

    async def _log_in(self) -> None:
        """`POST /oauth2/token` with grant_type password; its refresh token lives hardly longer and is not used."""
        password = self._settings.password
        assert password is not None  # the settings are complete, or nothing is synced
        given = {
            "username": self._settings.username,
            "password": password.get_secret_value(),
            "grant_type": "password",
        }
        response = await self._send("POST", "/oauth2/token", given, None)
        if response.status_code in {400, 401, 403}:
            raise RegistryError("the registry does not let us in: check ULAK_IYS_USERNAME and ULAK_IYS_PASSWORD")
        if response.status_code != 200:
            raise self._busy(response)
        told = _json(response)
        if not isinstance(told, Mapping) or not isinstance(told.get("access_token"), str):
            raise RegistryError("the registry's token endpoint gave no token: check ULAK_IYS_BASE_URL")
        life_sec = float(told.get("expires_in") or 0)
        self._token = told["access_token"]
        self._token_ends = self._monotonic() + max(life_sec - _RENEW_BEFORE_SEC, life_sec / 2)

    def _forget(self, token: str) -> None:
        if token == self._token:
            self._token_ends = float("-inf")

    async def _send(self, method: str, path: str, body: Any, token: str | None) -> httpx.Response:
        rest_sec = self._rest_until - self._monotonic()
        if rest_sec > 0:
            raise RegistryError("the registry asked us to rest", retry_after_sec=rest_sec)
        headers = {"accept": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        content = None
        if body is not None:
            headers["content-type"] = "application/json"
            content = orjson.dumps(body)
        try:
            async with asyncio.timeout(self._settings.timeout_sec):
                return await self._http.request(method, path, content=content, headers=headers)
        except (httpx.HTTPError, TimeoutError) as error:
            raise RegistryError(f"the registry does not answer: {type(error).__name__}") from error

    def _busy(self, response: httpx.Response) -> RegistryError:
        rest_sec = retry_after_sec(response.headers.get("retry-after"), datetime.now(UTC))
        if response.status_code == 429 and rest_sec is None:
            rest_sec = _BUSY_SEC
        if rest_sec is not None:
            self._rest_until = max(self._rest_until, self._monotonic() + rest_sec)
        return RegistryError(f"the registry answers {response.status_code}", retry_after_sec=rest_sec)


@asynccontextmanager
async def open_client(settings: IysSettings, *, monotonic: Callable[[], float]) -> AsyncIterator[IysClient]:
    """Connects to nothing yet. No redirect is followed and no proxy asked: what we tell is personal."""
    async with httpx.AsyncClient(
        base_url=settings.base_url, follow_redirects=False, trust_env=False, timeout=settings.timeout_sec
    ) as http:
        yield IysClient(http, settings, monotonic=monotonic)


def _json(response: httpx.Response) -> Any:
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise RegistryError(f"the registry answers {response.status_code} with something else than JSON") from error
