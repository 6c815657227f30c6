"""Twilio's Message resource and the accepted messages kept for fetches and receipts."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import format_datetime
from typing import Final

API_VERSION: Final = "2010-04-01"
STATUSES: Final = frozenset(
    {"accepted", "scheduled", "queued", "sending", "sent", "delivered", "undelivered", "failed", "read", "canceled"}
)
"""Twilio documentation, 'Messages resource: message status values'."""


def new_sid() -> str:
    return "SM" + secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Message:
    sid: str
    account_sid: str
    to: str
    sender: str | None
    service_sid: str | None
    body: str
    segments: int
    status: str
    status_callback: str | None
    reference: str | None
    created_at: datetime
    updated_at: datetime
    error_code: int | None = None

    def resource(self) -> dict[str, object]:
        """As the REST API answers it; `price` stays null until a carrier has charged, which never happens here."""
        uri = f"/{API_VERSION}/Accounts/{self.account_sid}/Messages/{self.sid}"
        sent = self.status in {"sent", "delivered", "undelivered"}
        return {
            "account_sid": self.account_sid,
            "api_version": API_VERSION,
            "body": self.body,
            "date_created": format_datetime(self.created_at),
            "date_sent": format_datetime(self.updated_at) if sent else None,
            "date_updated": format_datetime(self.updated_at),
            "direction": "outbound-api",
            "error_code": self.error_code,
            "error_message": None,
            "from": self.sender,
            "messaging_service_sid": self.service_sid,
            "num_media": "0",
            "num_segments": str(self.segments),
            "price": None,
            "price_unit": "USD",
            "sid": self.sid,
            "status": self.status,
            "subresource_uris": {"media": f"{uri}/Media.json"},
            "to": self.to,
            "uri": f"{uri}.json",
        }


@dataclass(slots=True)
class MessageStore:
    """Accepted messages by sid and by reference, the oldest forgotten beyond `max_messages`."""

    max_messages: int
    _by_sid: OrderedDict[str, Message] = field(default_factory=OrderedDict)
    _by_reference: dict[str, str] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        self._by_sid[message.sid] = message
        if message.reference is not None:
            self._by_reference[message.reference] = message.sid
        if len(self._by_sid) > self.max_messages:
            _, oldest = self._by_sid.popitem(last=False)
            if oldest.reference is not None and self._by_reference.get(oldest.reference) == oldest.sid:
                del self._by_reference[oldest.reference]

    def get(self, sid: str) -> Message | None:
        return self._by_sid.get(sid)

    def latest(self, reference: str) -> Message | None:
        """The last message accepted with this reference."""
        return self._by_sid.get(self._by_reference.get(reference, ""))

    def advance(self, sid: str, status: str, error_code: int | None, now: datetime) -> Message | None:
        """Set the status and return the message as it is now; None if it is forgotten."""
        message = self._by_sid.get(sid)
        if message is None:
            return None
        message = replace(message, status=status, error_code=error_code, updated_at=now)
        self._by_sid[sid] = message
        return message

    def clear(self) -> None:
        self._by_sid.clear()
        self._by_reference.clear()
