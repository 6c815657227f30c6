"""FCM's HTTP v1 API over the transport port."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import orjson

from shared.core.outcome import Ambiguous, Outcome, Permanent, ProviderDown, Transient
from shared.core.ports import (
    Prepared,
    Reply,
    ReplyLostError,
    Sender,
    SendWindow,
    Transport,
    UnsentError,
    UntrustedError,
)
from shared.providers.push.fcm.classify import classify, error_code
from shared.providers.push.fcm.credential import AccessToken
from shared.providers.push.fcm.request import MAX_PAYLOAD_BYTES, build, is_too_large
from shared.providers.push.fcm.settings import FcmSettings
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.transport import open_transport

NAME: Final = "fcm"


class FcmSender:
    """`Sender` for one Firebase project: Android and Web tokens."""

    provider: Final = NAME

    def __init__(
        self,
        settings: FcmSettings,
        transport: Transport,
        token: AccessToken,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        project = settings.project_id or token.project_id
        self._url = f"{settings.base_url.rstrip('/')}/v1/projects/{project}/messages:send"
        self._transport = transport
        self._token = token
        self._clock = clock
        self.concurrency: Final = settings.concurrency
        self._slots = Slots(settings.concurrency)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        request = build(message, self._clock())
        body = orjson.dumps(request)
        if len(body) > MAX_PAYLOAD_BYTES and is_too_large(request):
            return Permanent(f"payload over {MAX_PAYLOAD_BYTES:,} bytes: shorten title, body, url or data")
        try:
            reply = await self._post(body, deadline_sec)
        except UntrustedError as error:
            return ProviderDown(str(error))
        except UnsentError as error:
            return Transient(str(error), not_processed=True)
        except ReplyLostError as error:
            return Ambiguous(str(error))
        return classify(reply, self._clock())

    async def _post(self, body: bytes, deadline_sec: float) -> Reply:
        """Once more with a new access token if Google refused the old one: such a request was not processed."""
        started = time.monotonic()
        token = await self._token.current()
        reply = await self._post_with(token, body, deadline_sec)
        if reply.status == 401 and error_code(_error(reply)) is None:
            renewed = await self._token.renewed(token)
            left_sec = deadline_sec - (time.monotonic() - started)
            if left_sec > 0:
                return await self._post_with(renewed, body, left_sec)
        return reply

    def _post_with(self, token: str, body: bytes, timeout_sec: float) -> Awaitable[Reply]:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return self._transport.post(self._url, headers, body, timeout_sec=timeout_sec)


def _error(reply: Reply) -> dict[str, object]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}


@asynccontextmanager
async def _open(settings: FcmSettings) -> AsyncIterator[Sender]:
    assert settings.service_account_file is not None
    token = AccessToken(settings.service_account_file, settings.ca_file)
    try:
        async with open_transport(ca_file=settings.ca_file) as transport:
            yield FcmSender(settings, transport, token)
    finally:
        token.close()


FCM: Final = Provider(
    name=NAME, channel="PUSH", settings=FcmSettings, open=_open, platforms=frozenset({"ANDROID", "WEB"})
)
