"""Sender profiles as they are administered. Writers hold the catalogue's lock (shared/postgres/template.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from shared.core.ports import SenderProfile
from shared.core.sealing import KeyRing, SealError, key_id
from shared.core.sender import StoredProfile, open_profile, seal_profile
from shared.postgres.catalogue import stored_profile
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("sender_profile")


@dataclass(frozen=True, slots=True)
class StoredSender:
    """The profile with its key still sealed."""

    stored: StoredProfile
    revision: int
    updated_at: datetime


async def stored_sender(connection: Connection, name: str) -> StoredSender | None:
    row = await connection.fetchrow(_SQL["one"], name)
    return None if row is None else _stored(row)


async def list_senders(connection: Connection, *, after: str, limit: int) -> Sequence[StoredSender]:
    """At most `limit` behind the name `after`, by name."""
    return [_stored(row) for row in await connection.fetch(_SQL["page"], after, limit)]


async def put_sender(connection: Connection, name: str, new: SenderProfile, ring: KeyRing | None) -> bool | None:
    """Create or change it: True if it was created, None if it was so already.

    new is checked, its key plain; ring seals it, and a profile without a key needs none.
    """
    current = await stored_sender(connection, name)
    if current is not None and _same(current.stored, new, ring):
        return None
    if new.dkim is None:
        stored = StoredProfile(name, new)
    else:
        assert ring is not None, "a sender's key is sealed with a ring"
        stored = seal_profile(name, new, ring)
    profile, key = stored.profile, stored.dkim
    await connection.execute(
        _SQL["put"],
        name,
        profile.from_address,
        profile.from_name,
        profile.reply_to,
        profile.return_path,
        key and key.domain,
        key and key.selector,
        key and key.sealed,
    )
    return current is None


async def remove_sender(connection: Connection, name: str) -> None:
    """While a type names it: asyncpg's ForeignKeyViolationError."""
    await connection.execute(_SQL["remove"], name)


def _same(stored: StoredProfile, new: SenderProfile, ring: KeyRing | None) -> bool:
    """Whether nothing is to be written. A key under another than the active one is sealed anew, as a rotation needs:
    no retention ever removes it. One that does not open any more is replaced.
    """
    if stored.dkim is None or ring is None:
        return stored.dkim is None and stored.profile == new
    try:
        return key_id(stored.dkim.sealed) == ring.active and open_profile(stored, ring) == new
    except SealError:
        return False


def _stored(row: asyncpg.Record) -> StoredSender:
    return StoredSender(stored_profile(row), row["revision"], row["updated_at"])
