"""Twilio's REST API: one POST a message (Twilio, "Message resource")."""

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus, urlencode

from shared.core.outcome import Accepted, Ambiguous, Outcome, Permanent, ProviderDown, Transient
from shared.core.ports import Prepared, ReplyLostError, Sender, SendWindow, Transport, UnsentError, UntrustedError
from shared.core.segment import TWILIO_ENCODINGS, segments
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.sms.twilio.classify import classify
from shared.providers.sms.twilio.receipts import receipt_reader
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.providers.transport import open_transport

NAME: Final = "twilio"
MAX_BODY_CHARACTERS: Final = 1600
"""Twilio refuses longer ones (21617); known before sending, so nothing is spent on it."""
_QUOTED: Final = tuple(quote_plus(bytes((byte,))) for byte in range(256))
MAX_VALIDITY_SEC: Final = 36_000
"""Twilio, "ValidityPeriod": 1 to 36,000 s; how long it may queue a message before giving it up."""


class TwilioSender:
    """`Sender` for one account. The delivery's reference travels in the status callback's URL."""

    provider: Final = NAME

    def __init__(
        self,
        settings: TwilioSettings,
        transport: Transport,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert settings.account_sid is not None
        assert settings.auth_token is not None
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._slots = Slots(settings.concurrency)
        self._url = f"{settings.base_url.rstrip('/')}/2010-04-01/Accounts/{settings.account_sid}/Messages.json"
        secret = f"{settings.account_sid}:{settings.auth_token.get_secret_value()}"
        self._headers = {
            "authorization": f"Basic {base64.b64encode(secret.encode()).decode()}",
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }

    @property
    def concurrency(self) -> int:
        return self._settings.concurrency

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        now = self._clock()
        if len(message.content["text"]) > MAX_BODY_CHARACTERS:
            return Permanent(f"text over {MAX_BODY_CHARACTERS} characters")
        body = form(message, self._settings, now).encode()
        try:
            reply = await self._transport.post(self._url, self._headers, body, timeout_sec=deadline_sec)
        except UntrustedError as error:
            return ProviderDown(str(error))
        except UnsentError as error:
            return Transient(str(error), not_processed=True)
        except ReplyLostError as error:
            return Ambiguous(str(error))
        outcome = classify(reply, self._clock())
        if isinstance(outcome, Accepted):
            parts = segments(message.content["text"], TWILIO_ENCODINGS).count
            return replace(outcome, cost=self._settings.cost(message.address, parts))
        return outcome


def form(message: Prepared, settings: TwilioSettings, now: datetime) -> str:
    """The request's form. ValidityPeriod is what is left of the message's life, so that no code arrives too late."""
    left_sec = int((message.expires_at - now).total_seconds())
    validity_sec = min(MAX_VALIDITY_SEC, max(1, left_sec))
    sender_id = settings.sender(message.address, message.content.get("senderId"))
    callback = ""
    if settings.public_callback_url is not None:
        # The reference is URL-safe as it is, and quoting it would be a third of the form's cost.
        callback = f"{_callback(settings.public_callback_url)}{message.key.reference}%26attempt%3D{message.attempt}"
    return (
        f"To={_quoted(message.address)}&Body={_quoted(message.content['text'])}&ValidityPeriod={validity_sec}"
        f"{_sender(settings.messaging_service_sid, settings.from_number, sender_id)}{callback}"
    )


def _quoted(text: str) -> str:
    """As `quote_plus`, in half its time: most of a form's cost is quoting its text."""
    return "".join([_QUOTED[byte] for byte in text.encode()])


@lru_cache(maxsize=16)
def _sender(messaging_service_sid: str | None, from_number: str | None, sender_id: str | None) -> str:
    """The template's own sender before the installation's: Twilio takes From also where a service is set up."""
    if sender_id is not None:
        return f"&{urlencode({'From': sender_id})}"
    if messaging_service_sid is not None:
        return f"&{urlencode({'MessagingServiceSid': messaging_service_sid})}"
    return f"&{urlencode({'From': from_number})}"


@lru_cache(maxsize=16)
def _callback(public_url: str) -> str:
    """Where Twilio reports to, up to the reference."""
    return f"&StatusCallback={quote_plus(public_url.rstrip('/') + f'/callbacks/{NAME}?ref=')}"


@asynccontextmanager
async def _open(settings: TwilioSettings) -> AsyncIterator[Sender]:
    async with open_transport(ca_file=settings.ca_file, http2=False) as transport:
        yield TwilioSender(settings, transport)


TWILIO: Final = Provider(name=NAME, channel="SMS", settings=TwilioSettings, open=_open, receipts=receipt_reader)
