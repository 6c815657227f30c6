"""Recipients as they are administered: one at a time, with a revision that counts their changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import asyncpg

from shared.core.address import EmailAddress
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.recipient import sealed_address

_SQL: Final = load_queries("recipient_record")


@dataclass(frozen=True, slots=True)
class NewRecipient:
    """All of a recipient, checked. phone is E.164; repr shows no address and no attribute."""

    email: EmailAddress | None = field(default=None, repr=False)
    phone: str | None = field(default=None, repr=False)
    locale: str | None = None
    time_zone: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SealedAddress:
    """An address as it is stored: sealed with its target key as its row. Two of one address are equal."""

    key: bytes
    sealed: bytes = field(repr=False, compare=False)

    def open(self, ring: KeyRing) -> str:
        """As it was given; raises a SealError."""
        return open_sealed(ring, Purpose.ADDRESS, self.key, self.sealed).decode()


@dataclass(frozen=True, slots=True)
class StoredRecipient:
    """user_id is ours, external_id the caller's."""

    user_id: int
    external_id: str
    email: SealedAddress | None
    phone: SealedAddress | None
    locale: str | None
    time_zone: str | None
    attributes: Mapping[str, Any] = field(repr=False)
    revision: int
    created_at: datetime
    updated_at: datetime


async def stored_recipient(
    connection: Connection, external_id: str, *, to_change: bool = False
) -> StoredRecipient | None:
    """to_change: nobody else changes it until the transaction ends."""
    row = await connection.fetchrow(_SQL["one_locked" if to_change else "one"], external_id)
    return None if row is None else _stored(row)


async def add_recipient(
    connection: Connection, ring: KeyRing, external_id: str, new: NewRecipient
) -> StoredRecipient | None:
    """None if there is one already, perhaps since a moment ago: a first notification creates its user too."""
    row = await connection.fetchrow(_SQL["add"], *_columns(ring, external_id, new))
    return None if row is None else _stored(row)


async def change_recipient(
    connection: Connection, ring: KeyRing, external_id: str, new: NewRecipient
) -> StoredRecipient:
    """The recipient is there, and locked by `stored_recipient`."""
    row = await connection.fetchrow(_SQL["change"], *_columns(ring, external_id, new))
    assert row is not None
    return _stored(row)


async def recipients_with(
    connection: Connection, email_key: bytes | None, phone_key: bytes | None, *, after: int, limit: int
) -> Sequence[tuple[int, str]]:
    """(user_id, external_id) of whoever has one of the addresses, at most `limit` behind the user_id `after`."""
    rows = await connection.fetch(_SQL["with_address"], email_key, phone_key, after, limit)
    return [(row["user_id"], row["external_id"]) for row in rows]


def _columns(ring: KeyRing, external_id: str, new: NewRecipient) -> tuple[Any, ...]:
    email = (None, None) if new.email is None else sealed_address(ring, "EMAIL", new.email.canonical, new.email.text)
    phone = (None, None) if new.phone is None else sealed_address(ring, "SMS", new.phone, new.phone)
    return (external_id, *email, *phone, new.locale, new.time_zone, dict(new.attributes))


def _stored(row: asyncpg.Record) -> StoredRecipient:
    return StoredRecipient(
        user_id=row["user_id"],
        external_id=row["external_id"],
        email=_sealed(row, "email"),
        phone=_sealed(row, "phone"),
        locale=row["locale"],
        time_zone=row["time_zone"],
        attributes=row["attributes"],
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _sealed(row: asyncpg.Record, name: str) -> SealedAddress | None:
    key = row[f"{name}_key"]
    return None if key is None else SealedAddress(key, row[f"{name}_sealed"])
