"""Who a caller's user id is, read for one decision alone."""

from dataclasses import dataclass
from typing import Final

from shared.facts.subject import Recipient
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries

_SQL: Final = load_queries("facts")


@dataclass(frozen=True, slots=True)
class Known:
    """A user we have. id is ours; locale as they said it, None if they did not."""

    id: int
    locale: str | None
    recipient: Recipient


async def find_recipient(pool: Pool, external_id: str) -> Known | None:
    """None: nobody we know. Raises UnavailableError."""
    with translated():
        row = await pool.fetchrow(_SQL["recipient"], external_id)
    if row is None:
        return None
    recipient = Recipient.stored(
        row["email_key"], row["email_sealed"], row["phone_key"], row["phone_sealed"], row["time_zone"]
    )
    return Known(row["user_id"], row["locale"], recipient)
