"""Inboxes filled as the router fills them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import orjson

from shared.core.identifier import NOTIFICATION, new_id, public_id
from shared.core.inbox import NewEntry
from shared.core.sealing import KeyRing, Purpose, seal
from shared.postgres.inbox import write_inbox

LIST = "/api/v1/me/notifications"


async def user_id(pool: asyncpg.Pool, external_id: str = "7") -> int:
    """Known from the first time on."""
    await pool.execute(
        "INSERT INTO ulak.recipients (external_id) VALUES ($1) ON CONFLICT (external_id) DO NOTHING", external_id
    )
    found: int = await pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = $1", external_id)
    return found


async def notify(
    pool: asyncpg.Pool, ring: KeyRing, title: str, *, user: str = "7", ago: timedelta = timedelta(0)
) -> UUID:
    """A decided notification in the user's inbox; its id."""
    id_, owner, at = new_id(), await user_id(pool, user), datetime.now(UTC) - ago
    await pool.execute(
        "INSERT INTO ulak.notifications"
        " (id, application_id, event_id, user_id, type, message_class, mode, state, expires_at, created_at)"
        " VALUES ($1, 1, $2, $3, 'ORDER_SHIPPED', 1, 'live', 'DECIDED', now() + interval '1 day', $4)",
        id_,
        str(id_),
        owner,
        at,
    )
    sealed = seal(ring, Purpose.INBOX, id_.bytes, orjson.dumps({"title": title, "body": "Kargo A"}))
    async with pool.acquire() as connection, connection.transaction():
        await write_inbox(connection, [NewEntry(owner, id_, at, "ORDER_SHIPPED", sealed, "tr")])
    return id_


def public(id_: UUID) -> str:
    return public_id(NOTIFICATION, id_)
