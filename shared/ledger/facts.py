"""What is known of e-mail requests before they are decided: a handful of queries per batch, whatever its size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.core.address import target_key
from shared.core.email import EmailRequest
from shared.core.sealing import KeyRing
from shared.decision.email import CHANNEL, Known, Preferences
from shared.decision.facts import Mode
from shared.ledger.ask import EmailAsk
from shared.postgres.pool import Connection
from shared.postgres.preference import read_preferences
from shared.postgres.query import load_queries

_SQL: Final = load_queries("ledger")
_NOBODY: Final[Preferences] = {}


@dataclass(frozen=True, slots=True)
class _User:
    id: int
    locale: str | None


@dataclass(frozen=True, slots=True)
class EmailFacts:
    """One request's. user_id is ours, for the user id that the request brought; None: it named nobody."""

    known: Known
    user_id: int | None = None


async def load_facts(connection: Connection, asks: Sequence[EmailAsk], ring: KeyRing) -> dict[UUID, EmailFacts]:
    """Facts by the requests' ids. A user seen for the first time is created."""
    keys = {ask.id: target_keys(ring, ask.request) for ask in asks}
    users = await _users(connection, asks)
    preferences = await read_preferences(connection, [user.id for user in users.values()])
    everybody = sorted({key for found in keys.values() for key in found})
    suppressed, unsolicited = await _suppressed(connection, everybody)
    consented = await _consented(connection, everybody)
    allow_lists = await _allow_lists(connection, asks)
    facts: dict[UUID, EmailFacts] = {}
    for ask in asks:
        user = users.get(ask.request.user_id or "")
        known = Known(
            id=ask.id,
            created_at=ask.created_at,
            target_keys=keys[ask.id],
            expires_at=ask.expires_at,
            mode=ask.mode,
            locale=None if user is None else user.locale,
            preferences=_NOBODY if user is None else preferences.get(user.id, _NOBODY),
            suppressed=suppressed.intersection(keys[ask.id]),
            unsolicited=unsolicited.intersection(keys[ask.id]),
            consented=consented.intersection(keys[ask.id]),
            allow_list=frozenset() if ask.api_key_id is None else allow_lists.get(ask.api_key_id, frozenset()),
        )
        facts[ask.id] = EmailFacts(known, None if user is None else user.id)
    return facts


def target_keys(ring: KeyRing, request: EmailRequest) -> tuple[bytes, ...]:
    """The keys of the request's deliveries, in the order of its recipients."""
    return tuple(target_key(ring, CHANNEL, recipient.mailbox.address.canonical) for recipient in request.recipients)


async def _users(connection: Connection, asks: Sequence[EmailAsk]) -> dict[str, _User]:
    named = sorted({ask.request.user_id for ask in asks if ask.request.user_id})
    if not named:
        return {}
    rows = await connection.fetch(_SQL["users"], named)
    unseen = sorted(set(named) - {row["external_id"] for row in rows})
    if unseen:
        await connection.execute(_SQL["enter_users"], unseen)
        rows += await connection.fetch(_SQL["users"], unseen)
    return {row["external_id"]: _User(row["user_id"], row["locale"]) for row in rows}


async def _suppressed(connection: Connection, keys: Sequence[bytes]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Those that take no mail at all, and those that take no marketing."""
    rows = await connection.fetch(_SQL["suppressed"], keys)
    unsolicited = frozenset(row["address_key"] for row in rows if row["unsolicited"])
    return frozenset(row["address_key"] for row in rows) - unsolicited, unsolicited


async def _consented(connection: Connection, keys: Sequence[bytes]) -> frozenset[bytes]:
    return frozenset(row["subject"] for row in await connection.fetch(_SQL["consented"], keys))


async def _allow_lists(connection: Connection, asks: Sequence[EmailAsk]) -> Mapping[UUID, frozenset[bytes]]:
    ids = sorted({ask.api_key_id for ask in asks if ask.mode is Mode.TEAM and ask.api_key_id is not None})
    if not ids:
        return {}
    return {row["id"]: frozenset(row["allow_list"]) for row in await connection.fetch(_SQL["allow_lists"], ids)}
