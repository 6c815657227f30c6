"""SendGrid's v3 API: one POST for a message to several, or for many messages alike (Twilio SendGrid, "Mail Send")."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import orjson

from shared.core.outcome import NotSent, Outcome, Permanent, Transient
from shared.core.ports import Prepared, Sender, SendWindow, Transport, TransportError
from shared.providers.email.account import has_ascii_local_part, no_smtputf8, too_large
from shared.providers.email.composer import not_a_mail, read_attachments
from shared.providers.email.header import InvalidMailError
from shared.providers.email.sendgrid.classify import classify, refused_personalizations
from shared.providers.email.sendgrid.request import Personalization, batches, common, personalizations
from shared.providers.email.sendgrid.settings import SendgridSettings
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.transport import open_transport
from shared.providers.unanswered import unanswered

NAME: Final = "sendgrid"
MAX_BYTES: Final = 30_000_000
"""Twilio SendGrid, "Mail Send: limitations": less than 30 MB a message, its files included."""
_ROUNDS: Final = 3
"""How often a request is made without those who were refused; SendGrid names all of them the first time."""
_NOT_ALONE: Final = Transient("400 because of others in the request", not_processed=True)


class SendgridSender:
    """`Sender` for one account."""

    provider: Final = NAME

    def __init__(
        self,
        settings: SendgridSettings,
        transport: Transport,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert settings.api_key is not None
        self._profile = settings.profile
        self._transport = transport
        self._clock = clock
        self._slots = Slots(settings.concurrency)
        self._url = f"{settings.endpoint}/v3/mail/send"
        self._headers = {
            "authorization": f"Bearer {settings.api_key.get_secret_value()}",
            "content-type": "application/json",
        }
        self.concurrency: Final = settings.concurrency

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_groups(batches(batch), self._send_together, window)

    async def _send_together(self, messages: Sequence[Prepared], deadline_sec: float) -> Sequence[Outcome]:
        """An outcome each. Whoever SendGrid cannot be told of keeps no other from their mail (E2)."""
        started = time.monotonic()
        outcomes: list[Outcome] = [no_smtputf8(NAME)] * len(messages)
        able = [index for index, message in enumerate(messages) if has_ascii_local_part(message.address)]
        if able:
            found = await self._deliver([messages[index] for index in able], started, deadline_sec)
            for index, outcome in zip(able, found, strict=True):
                outcomes[index] = outcome
        return outcomes

    async def _deliver(self, messages: Sequence[Prepared], started: float, deadline_sec: float) -> Sequence[Outcome]:
        files = await read_attachments(messages, started, deadline_sec)
        if not isinstance(files, Sequence):
            return [files] * len(messages)
        try:
            shared = common(messages[0], self._profile, files)
            mails, faults = personalizations(messages, self._profile)
        except (InvalidMailError, UnicodeEncodeError) as error:
            return [not_a_mail(error)] * len(messages)
        outcomes: dict[int, Outcome] = {index: not_a_mail(fault) for index, fault in faults.items()}
        for _ in range(_ROUNDS):
            if not mails:
                break
            refused, outcome = await self._post(shared, mails, started + deadline_sec)
            for number, mail in enumerate(mails):
                told = outcome if number in refused or not refused else _NOT_ALONE
                outcomes |= dict.fromkeys(mail.messages, told)
            # Nothing of a refused request was processed: the others may go without those it was refused for.
            mails = [mail for number, mail in enumerate(mails) if refused and number not in refused]
        return [outcomes[index] for index in range(len(messages))]

    async def _post(
        self, shared: dict[str, object], mails: Sequence[Personalization], deadline: float
    ) -> tuple[frozenset[int], Outcome]:
        """One request: the mails it was refused for, if it was for some alone, and their outcome; else that of all."""
        nobody: frozenset[int] = frozenset()
        try:
            body = orjson.dumps({**shared, "personalizations": [mail.body for mail in mails]})
        except orjson.JSONEncodeError:
            return nobody, Permanent("not a mail: its text has half of a surrogate pair")
        if len(body) > MAX_BYTES:
            return nobody, too_large(NAME, len(body), MAX_BYTES)
        left_sec = deadline - time.monotonic()
        if left_sec <= 0:
            return nobody, NotSent("no time left")
        try:
            reply = await self._transport.post(self._url, self._headers, body, timeout_sec=left_sec)
        except TransportError as error:
            return nobody, unanswered(error)
        return refused_personalizations(reply), classify(reply, self._clock())


@asynccontextmanager
async def _open(settings: SendgridSettings) -> AsyncIterator[Sender]:
    async with open_transport(ca_file=settings.ca_file) as transport:
        yield SendgridSender(settings, transport)


SENDGRID: Final = Provider(name=NAME, channel="EMAIL", settings=SendgridSettings, open=_open)
