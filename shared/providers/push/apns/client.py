"""Apple's push service over the transport port, or by the library aioapns."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from shared.core.outcome import Outcome, Permanent
from shared.core.ports import Prepared, Reply, Sender, SendWindow, Transport, TransportError
from shared.providers.push.apns.classify import EXPIRED_TOKEN, classify, reason_of
from shared.providers.push.apns.request import ApnsRequest, RefusedError, build
from shared.providers.push.apns.settings import ApnsSettings
from shared.providers.push.apns.token import ProviderToken
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.transport import open_transport
from shared.providers.unanswered import unanswered

NAME: Final = "apns"

Carry = Callable[[ApnsRequest, float], Awaitable[Reply]]
"""Carries one request within so many seconds; raises a TransportError."""


class ApnsSender:
    """`Sender` for one signing key. `carry` is who speaks HTTP/2."""

    provider: Final = NAME

    def __init__(
        self,
        settings: ApnsSettings,
        carry: Carry,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert settings.topic is not None
        self._topic = settings.topic
        self._carry = carry
        self._clock = clock
        self.concurrency: Final = settings.concurrency
        self._slots = Slots(settings.concurrency)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        try:
            reply = await self._carry(build(message, self._topic, self._clock()), deadline_sec)
        except RefusedError as error:
            return Permanent(str(error))
        except TransportError as error:
            return unanswered(error)
        return classify(reply, self._clock())


class TransportCarrier:
    """`Carry` over the transport port; refreshes the token once when Apple says it has expired (P4)."""

    def __init__(self, base_url: str, transport: Transport, token: ProviderToken) -> None:
        self._base_url = base_url.rstrip("/")
        self._transport = transport
        self._token = token

    async def __call__(self, request: ApnsRequest, deadline_sec: float) -> Reply:
        started = time.monotonic()
        token = self._token.current()
        reply = await self._post(request, token, deadline_sec)
        if reply.status == 403 and reason_of(reply) == EXPIRED_TOKEN:
            renewed = self._token.renewed(token)
            left_sec = deadline_sec - (time.monotonic() - started)
            if renewed is not None and left_sec > 0:
                return await self._post(request, renewed, left_sec)
        return reply

    def _post(self, request: ApnsRequest, token: str, timeout_sec: float) -> Awaitable[Reply]:
        headers = {**request.headers, "authorization": f"bearer {token}"}
        url = f"{self._base_url}/3/device/{request.token}"
        return self._transport.post(url, headers, request.body, timeout_sec=timeout_sec)


@asynccontextmanager
async def _open(settings: ApnsSettings) -> AsyncIterator[Sender]:
    assert settings.key_file is not None
    assert settings.key_id is not None
    assert settings.team_id is not None
    key_pem = settings.key_file.read_text(encoding="ascii")
    if settings.engine == "aioapns":
        from shared.providers.push.apns.aioapns_engine import open_aioapns

        async with open_aioapns(settings, key_pem) as carrier:
            yield ApnsSender(settings, carrier)
        return
    token = ProviderToken(key_pem=key_pem, key_id=settings.key_id, team_id=settings.team_id, clock=time.time)
    async with open_transport(ca_file=settings.ca_file) as transport:
        yield ApnsSender(settings, TransportCarrier(settings.base_url, transport, token))


APNS: Final = Provider(name=NAME, channel="PUSH", settings=ApnsSettings, open=_open, platforms=frozenset({"IOS"}))
