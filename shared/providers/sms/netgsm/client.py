"""Netgsm's REST API v2: one POST a message (Netgsm, "SMS API: REST v2, SMS gönderimi")."""

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from shared.core.outcome import Accepted, Outcome, Permanent
from shared.core.ports import Prepared, Sender, SendWindow, Transport, TransportError
from shared.core.segment import Encoding, Segments, segments
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.sms.netgsm.classify import classify
from shared.providers.sms.netgsm.settings import NetgsmSettings
from shared.providers.transport import open_transport
from shared.providers.unanswered import unanswered

NAME: Final = "netgsm"
COUNTRY_CODE: Final = "+90"
ENCODINGS: Final = (Encoding.GSM7, Encoding.GSM7_TURKISH_SINGLE)
"""`encoding` is TR for Turkish letters (the single shift table of 3GPP TS 23.038: 155 septets, 149 in each of several
parts) or is left out; the API knows no other."""
IYS_FILTER: Final = {"individual": "11", "merchant": "12"}
NO_IYS: Final = "0"
"""Netgsm, `iysfilter`: 0 for what is no marketing; 11 and 12 check the consent of an individual or a merchant."""


class NetgsmSender:
    """`Sender` for one subscription. The delivery's reference travels in `referansID`."""

    provider: Final = NAME

    def __init__(
        self,
        settings: NetgsmSettings,
        transport: Transport,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert settings.password is not None
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._url = f"{settings.base_url.rstrip('/')}/sms/rest/v2/send"
        secret = f"{settings.usercode}:{settings.password.get_secret_value()}"
        self._headers = {
            "authorization": f"Basic {base64.b64encode(secret.encode()).decode()}",
            "content-type": "application/json",
            "accept": "application/json",
        }
        self.concurrency: Final = settings.concurrency
        self._slots = Slots(settings.concurrency)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        if not message.address.startswith(COUNTRY_CODE):
            return Permanent("Netgsm carries numbers of Türkiye (+90) alone: give the lane a provider for others too")
        packed = _packed(message.content["text"])
        if packed is None:
            return Permanent("a character that Netgsm cannot carry: only GSM-7 and Turkish letters, no emoji")
        body = orjson.dumps(request(message, self._settings, packed.encoding))
        try:
            reply = await self._transport.post(self._url, self._headers, body, timeout_sec=deadline_sec)
        except TransportError as error:
            return unanswered(error)
        outcome = classify(reply, self._clock())
        if isinstance(outcome, Accepted):
            return replace(outcome, cost=self._settings.cost(message.address, packed.count))
        return outcome


def request(message: Prepared, settings: NetgsmSettings, encoding: Encoding) -> Mapping[str, Any]:
    """The request's body. It has no word for a message's life: Netgsm's shortest is an hour."""
    body: dict[str, Any] = {
        "msgheader": settings.sender(message.address, message.content.get("senderId")) or settings.msgheader,
        "messages": [{"msg": message.content["text"], "no": message.address.removeprefix(COUNTRY_CODE)}],
        "iysfilter": IYS_FILTER[settings.iys_recipients] if message.marketing else NO_IYS,
        "referansID": message.key.reference,
    }
    if encoding is not Encoding.GSM7:
        body["encoding"] = "TR"
    return body


def _packed(text: str) -> Segments | None:
    """None for a text that neither encoding holds: no character is ever replaced (S3)."""
    try:
        return segments(text, ENCODINGS)
    except ValueError:
        return None


@asynccontextmanager
async def _open(settings: NetgsmSettings) -> AsyncIterator[Sender]:
    async with open_transport(ca_file=settings.ca_file, http2=False) as transport:
        yield NetgsmSender(settings, transport)


NETGSM: Final = Provider(name=NAME, channel="SMS", settings=NetgsmSettings, open=_open, prefixes=(COUNTRY_CODE,))
