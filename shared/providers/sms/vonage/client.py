"""Vonage's SMS API: one POST a message (Vonage, "SMS API reference: send an SMS")."""

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from shared.core.outcome import Accepted, Outcome
from shared.core.ports import Prepared, Sender, SendWindow, Transport, TransportError
from shared.core.segment import TWILIO_ENCODINGS, Encoding, segments
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.sms.vonage.classify import classify
from shared.providers.sms.vonage.settings import VonageSettings
from shared.providers.transport import open_transport
from shared.providers.unanswered import unanswered

NAME: Final = "vonage"
MIN_TTL_MS, MAX_TTL_MS = 20_000, 604_800_000
"""Vonage, "SMS API reference", `ttl`: 20 s to 7 days."""


class VonageSender:
    """`Sender` for one account. The delivery's reference travels in `client-ref` (at most 100 characters)."""

    provider: Final = NAME

    def __init__(
        self,
        settings: VonageSettings,
        transport: Transport,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert settings.api_secret is not None
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._url = f"{settings.base_url.rstrip('/')}/sms/json"
        secret = f"{settings.api_key}:{settings.api_secret.get_secret_value()}"
        self._headers = {
            "authorization": f"Basic {base64.b64encode(secret.encode()).decode()}",
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        self.concurrency: Final = settings.concurrency
        self._slots = Slots(settings.concurrency)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        packed = segments(message.content["text"], TWILIO_ENCODINGS)
        body = form(message, self._settings, packed.encoding, self._clock())
        try:
            reply = await self._transport.post(
                self._url, self._headers, urlencode(body).encode(), timeout_sec=deadline_sec
            )
        except TransportError as error:
            return unanswered(error)
        outcome = classify(reply, self._clock(), self._settings.price_currency)
        if isinstance(outcome, Accepted) and (outcome.cost is None or outcome.cost.price is None):
            return replace(outcome, cost=self._settings.cost(message.address, packed.count))
        return outcome


def form(message: Prepared, settings: VonageSettings, encoding: Encoding, now: datetime) -> dict[str, str]:
    """The request's form. `ttl` is what is left of the message's life.

    `unicode` is said for what GSM-7 does not hold: Vonage would replace it otherwise (S3).
    """
    left_ms = int((message.expires_at - now).total_seconds() * 1000)
    sender = settings.sender(message.address, message.content.get("senderId")) or settings.sender_id
    return {
        "from": (sender or "").removeprefix("+"),
        "to": message.address.removeprefix("+"),
        "text": message.content["text"],
        "type": "unicode" if encoding is Encoding.UCS2 else "text",
        "ttl": str(min(MAX_TTL_MS, max(MIN_TTL_MS, left_ms))),
        "client-ref": message.key.reference,
    }


@asynccontextmanager
async def _open(settings: VonageSettings) -> AsyncIterator[Sender]:
    async with open_transport(ca_file=settings.ca_file, http2=False) as transport:
        yield VonageSender(settings, transport)


VONAGE: Final = Provider(name=NAME, channel="SMS", settings=VonageSettings, open=_open)
