"""E-mail requests, kept in `contents` for as long as somebody needs them (semantics.md section 3, Cleared)."""

from collections.abc import Iterable
from typing import Final

from shared.core.lifecycle import REPAIRABLE, Reason
from shared.core.reference import DeliveryKey
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import EMAIL

_SQL: Final = load_queries("email_request")
_KEEPING: Final = (*sorted(REPAIRABLE), Reason.UNSEALABLE)
"""Failures after which a request is kept: what can be sent again, and what only a key is missing for."""


async def clear_requests(connection: Connection, ended: Iterable[DeliveryKey]) -> None:
    """Clear the requests whose last recipient is among `ended`; what is no e-mail request is left alone.

    For whoever ends deliveries, in the transaction that does so, after their rows are written: deliveries are locked
    before contents everywhere. Asks nothing about other channels, and one look-up by key about mails that were rendered
    before. Raises what asyncpg raises.
    """
    ids = sorted({key.notification_id for key in ended if key.channel == EMAIL.name})
    if not ids:
        return
    kept = [row[0] for row in await connection.fetch(_SQL["lock_requests"], ids, ids[0], ids[-1])]
    if kept:
        await connection.execute(_SQL["clear_requests"], kept, kept[0], kept[-1], _KEEPING)
