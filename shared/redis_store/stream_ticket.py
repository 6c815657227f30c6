"""Tickets for a browser's event stream, which cannot send a header: short-lived, of one use, for every replica."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

import orjson
from redis.asyncio import Redis

TICKET_TTL_SEC: Final = 30
_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Ticket:
    """Whose stream it opens, and until when (seconds since the epoch): the end of the token that asked for it."""

    user: str
    expires_at: float


class StreamTickets:
    """Kept in Redis by the hash of the ticket, so that whoever reads the keys has none. Raises redis.RedisError."""

    def __init__(self, redis: Redis, key_prefix: str) -> None:
        self._redis = redis
        self._prefix = key_prefix

    async def issue(self, ticket: Ticket) -> str:
        """A new ticket's text, good for TICKET_TTL_SEC."""
        text = secrets.token_urlsafe(_BYTES)
        value = orjson.dumps({"user": ticket.user, "expiresAt": ticket.expires_at})
        await self._redis.set(self._key(text), value, ex=TICKET_TTL_SEC)
        return text

    async def redeem(self, text: str) -> Ticket | None:
        """What it opens; None for one that is unknown, too old or used already. Two who come at once: one gets it."""
        value = await self._redis.getdel(self._key(text))
        if value is None:
            return None
        stored = orjson.loads(value)
        return Ticket(stored["user"], stored["expiresAt"])

    def _key(self, text: str) -> str:
        return f"{self._prefix}stream-ticket:{hashlib.sha256(text.encode()).hexdigest()}"
