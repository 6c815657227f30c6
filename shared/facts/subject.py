"""Whom and what a decision is about, as far as the facts go."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from shared.decision.facts import Mode
from shared.wire.channel import AddressKind


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class Recipient:
    """What is known of the user: addresses unopened, by kind; device tokens are loaded with the facts."""

    addresses: Mapping[AddressKind, tuple[bytes, bytes]]
    """Kind -> (target key, sealed address)."""
    zone: str | None = None

    @classmethod
    def stored(
        cls,
        email_key: bytes | None,
        email_sealed: bytes | None,
        phone_key: bytes | None,
        phone_sealed: bytes | None,
        zone: str | None,
    ) -> "Recipient":
        """From the columns of `recipients`: each address with its key, or neither."""
        addresses: dict[AddressKind, tuple[bytes, bytes]] = {}
        if email_key is not None and email_sealed is not None:
            addresses[AddressKind.EMAIL_ADDRESS] = (email_key, email_sealed)
        if phone_key is not None and phone_sealed is not None:
            addresses[AddressKind.PHONE] = (phone_key, phone_sealed)
        return cls(addresses, zone)


class Subject(Protocol):
    """A notification, stored or hypothetical. user_id is ours; None: to nobody we know."""

    @property
    def id(self) -> UUID: ...
    @property
    def user_id(self) -> int | None: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def recipient(self) -> Recipient: ...
    @property
    def channels(self) -> tuple[str, ...] | None: ...
    @property
    def locale(self) -> str | None: ...
    @property
    def business_key(self) -> str | None: ...
    @property
    def expires_at(self) -> datetime: ...
    @property
    def send_at(self) -> datetime | None: ...
    @property
    def api_key_id(self) -> UUID | None: ...
