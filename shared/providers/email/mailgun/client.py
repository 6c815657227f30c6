"""Mailgun's MIME endpoint: `POST /v3/{domain}/messages.mime` (Mailgun, "Send an email in MIME format")."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from shared.core.outcome import Outcome
from shared.core.ports import Reply, Sender
from shared.providers.email.account import Call, MimeAccount
from shared.providers.email.composer import Letter
from shared.providers.email.mailgun.classify import classify
from shared.providers.email.mailgun.form import CONTENT_TYPE, form
from shared.providers.email.mailgun.settings import MailgunSettings
from shared.providers.registry import Provider
from shared.providers.transport import open_transport

NAME: Final = "mailgun"
MAX_BYTES: Final = 25_000_000
"""Mailgun, "Sending messages, HTTP": 25 MB, whichever megabyte is meant."""
MAX_RECIPIENTS: Final = 1000
"""The same: "Too many recipients; max is 1000"."""


class MailgunApi:
    """One sending domain."""

    name: Final = NAME
    max_bytes: Final = MAX_BYTES
    max_recipients: Final = MAX_RECIPIENTS

    def __init__(self, settings: MailgunSettings) -> None:
        assert settings.api_key is not None
        key = base64.b64encode(f"api:{settings.api_key.get_secret_value()}".encode()).decode("ascii")
        self._url = f"{settings.endpoint}/v3/{settings.domain}/messages.mime"
        self._headers = {"authorization": f"Basic {key}", "content-type": CONTENT_TYPE}

    async def call(self, letter: Letter) -> Call:
        return Call(self._url, self._headers, body(letter))

    def classify(self, reply: Reply, now: datetime) -> Outcome:
        return classify(reply, now)


def body(letter: Letter) -> bytes:
    """The form. `to` is who gets the mail, once each; whom its header shows is the header's affair.

    The reference travels as a variable, which Mailgun gives back in every event.
    """
    first = letter.messages[0]
    reference = first.key.reference if first.envelope is None else first.envelope.message_reference
    fields = [("to", recipient) for recipient in letter.mail.recipients]
    return form([*fields, ("v:reference", reference)], "message", "message.eml", letter.mail.content)


@asynccontextmanager
async def _open(settings: MailgunSettings) -> AsyncIterator[Sender]:
    async with open_transport(ca_file=settings.ca_file) as transport:
        account = MimeAccount(MailgunApi(settings), settings, transport)
        try:
            yield account
        finally:
            account.close()


MAILGUN: Final = Provider(name=NAME, channel="EMAIL", settings=MailgunSettings, open=_open)
