"""Twilio's status callbacks: signature and meaning.

Sources: Twilio, "Webhooks security" (X-Twilio-Signature: HMAC-SHA1 over the URL and the sorted form fields), "Message
resource" (MessageStatus values), "Error and warning dictionary" (codes).
The delivery's reference and attempt travel in the callback URL's query: `?ref=<DeliveryKey.reference>&attempt=<n>`.
"""

import base64
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, parse_qsl, urlsplit, urlunsplit

from shared.core.lifecycle import ReceiptKind
from shared.core.receipt import CallbackRequest, ForgedError, Receipt, UnreadableError, UnsignedError
from shared.core.reference import DeliveryKey
from shared.providers.sms.twilio.settings import TwilioSettings

KINDS: Final[Mapping[str, ReceiptKind]] = {
    "accepted": ReceiptKind.PROGRESS,
    "scheduled": ReceiptKind.PROGRESS,
    "queued": ReceiptKind.PROGRESS,
    "sending": ReceiptKind.PROGRESS,
    "sent": ReceiptKind.PROGRESS,
    "delivered": ReceiptKind.DELIVERED,
    "read": ReceiptKind.DELIVERED,
    "undelivered": ReceiptKind.UNDELIVERED,
    "failed": ReceiptKind.UNDELIVERED,
    "canceled": ReceiptKind.UNDELIVERED,
}

SUPPRESSING_CODES: Final[Mapping[str, str]] = {"21610": "opted_out"}
"""21610: the recipient answered STOP (S7). Carrier errors such as 30003 and 30006 say nothing about tomorrow."""

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class TwilioReceipts:
    """ReceiptReader of one Twilio account.

    public_url is where Twilio was told to call (`ULAK_PUBLIC_CALLBACK_URL`, scheme and host, no trailing slash): the
    only source of the URL that is verified, whatever proxies and headers say (S5).
    auth_tokens: the primary one, and the secondary one while tokens are being exchanged.
    """

    public_url: str
    auth_tokens: tuple[str, ...] = field(repr=False)

    def verify(self, request: CallbackRequest) -> None:
        given = request.headers.get("x-twilio-signature")
        if not given:
            raise UnsignedError("the X-Twilio-Signature header is missing")
        fields = _form(request.body)
        expected = [
            signature(token, url, fields)
            for token in self.auth_tokens
            for url in _spellings(self.public_url.rstrip("/") + request.target)
        ]
        # Every candidate is compared, so that the time taken does not tell which one was near.
        if not any([hmac.compare_digest(given.encode(), candidate.encode()) for candidate in expected]):  # noqa: C419
            raise ForgedError("not signed by this account, or ULAK_PUBLIC_CALLBACK_URL is not the URL Twilio calls")

    def read(self, request: CallbackRequest) -> Sequence[Receipt]:
        query = parse_qs(request.query, keep_blank_values=True)
        fields = dict(_form(request.body))
        message_id = fields.get("MessageSid") or fields.get("SmsSid")
        status = fields.get("MessageStatus") or fields.get("SmsStatus")
        if not message_id or not status:
            raise UnreadableError("a Twilio callback without MessageSid or MessageStatus")
        kind = KINDS.get(status)
        if kind is None:
            raise UnreadableError(f"a Twilio callback with the unknown MessageStatus {status[:32]!r}")
        try:
            key = DeliveryKey.parse(query["ref"][0])
            attempt = int(query["attempt"][0])
        except (KeyError, ValueError) as error:
            raise UnreadableError("a Twilio callback whose URL carries no delivery reference of ours") from error
        code = fields.get("ErrorCode") or None
        return (
            Receipt(
                key=key,
                attempt=attempt,
                kind=kind,
                provider_message_id=message_id,
                # Twilio numbers no callbacks; the same status of the same message is the same statement.
                event_key=f"{message_id}:{status}:{code or ''}",
                error_code=code,
                detail=status if code is None else f"{status} {code}",
                suppress=SUPPRESSING_CODES.get(code or ""),
            ),
        )


def receipt_reader(settings: TwilioSettings) -> TwilioReceipts | None:
    """The reader of the settings' account; None without ULAK_PUBLIC_CALLBACK_URL: no callback was asked for then."""
    if settings.auth_token is None or settings.public_callback_url is None:
        return None
    return TwilioReceipts(settings.public_callback_url, (settings.auth_token.get_secret_value(),))


def signature(auth_token: str, url: str, fields: Iterable[tuple[str, str]]) -> str:
    """X-Twilio-Signature of a form POST: base64 of HMAC-SHA1 over the URL and every distinct field, sorted by name."""
    text = url + "".join(name + value for name, value in sorted(set(fields)))
    return base64.b64encode(hmac.digest(auth_token.encode(), text.encode(), "sha1")).decode()


def _form(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(body.decode("utf-8", errors="replace"), keep_blank_values=True)


def _spellings(url: str) -> tuple[str, ...]:
    """The URL as configured, and with the scheme's default port left out or put in: Twilio does either (S5)."""
    parts = urlsplit(url)
    default = _DEFAULT_PORTS.get(parts.scheme)
    if default is None or parts.port not in {None, default}:
        return (url,)
    host = parts.netloc.removesuffix(f":{default}")
    return tuple(
        urlunsplit((parts.scheme, netloc, parts.path, parts.query, "")) for netloc in (host, f"{host}:{default}")
    )
