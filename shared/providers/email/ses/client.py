"""Amazon SES over its API v2: `SendEmail` with raw content (SES Developer Guide, "Sending raw email")."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from shared.core.outcome import Outcome
from shared.core.ports import Reply, Sender
from shared.providers.email.account import Call, MimeAccount
from shared.providers.email.composer import Letter
from shared.providers.email.ses.classify import classify
from shared.providers.email.ses.settings import SesSettings
from shared.providers.registry import Provider
from shared.providers.transport import open_transport

if TYPE_CHECKING:
    from shared.providers.email.ses.signer import Signer

NAME: Final = "ses"
MAX_BYTES: Final = 40_000_000
"""SES, "Service quotas": 40 MB a message with API v2, whichever megabyte is meant."""
MAX_RECIPIENTS: Final = 50
"""The same page: recipients of a message."""
_HEADERS: Final = {"content-type": "application/json"}


class SesApi:
    """One account in one region."""

    name: Final = NAME
    max_bytes: Final = MAX_BYTES
    max_recipients: Final = MAX_RECIPIENTS

    def __init__(self, settings: SesSettings, signer: "Signer") -> None:
        self._url = f"{settings.endpoint}/v2/email/outbound-emails"
        self._configuration_set = settings.configuration_set
        self._signer = signer

    async def call(self, letter: Letter) -> Call:
        body = orjson.dumps(request(letter, self._configuration_set))
        return Call(self._url, await self._signer.signed(self._url, _HEADERS, body), body)

    def classify(self, reply: Reply, now: datetime) -> Outcome:
        return classify(reply, now)


def request(letter: Letter, configuration_set: str | None) -> dict[str, Any]:
    """The body of `SendEmail`.

    The destination is who gets the mail; whom its header shows is the header's affair. Bounces go where the sender's
    return path says, which SES calls feedback forwarding. SES writes its own Message-ID and Date over ours ("Amazon SES
    header fields"), so X-Ulak-Reference is what a mail is known by.
    """
    mail = letter.mail
    body: dict[str, Any] = {
        "Destination": {"ToAddresses": list(mail.recipients)},
        "Content": {"Raw": {"Data": base64.b64encode(mail.content).decode("ascii")}},
    }
    envelope = letter.messages[0].envelope
    if envelope is not None and envelope.sender is not None and envelope.sender.return_path:
        body["FeedbackForwardingEmailAddress"] = mail.sender
    if configuration_set is not None:
        body["ConfigurationSetName"] = configuration_set
    return body


@asynccontextmanager
async def _open(settings: SesSettings) -> AsyncIterator[Sender]:
    from shared.providers.email.ses.signer import Signer  # botocore: 0.2 s and 6 MB, for those who send through SES

    assert settings.region is not None
    secret = settings.secret_access_key
    signer = Signer(settings.region, settings.access_key_id, None if secret is None else secret.get_secret_value())
    async with open_transport(ca_file=settings.ca_file) as transport:
        account = MimeAccount(SesApi(settings, signer), settings, transport)
        try:
            yield account
        finally:
            account.close()
            signer.close()


SES: Final = Provider(name=NAME, channel="EMAIL", settings=SesSettings, open=_open)
