"""The user's words in PostgreSQL, and what marketing consents stand beside them.

Each works on the caller's connection and raises what asyncpg raises.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.core.consent import Purpose, user_subject
from shared.core.sealing import KeyRing
from shared.postgres.consent import read_states
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.recipient import put_preferences
from shared.profile.preference import Told, Words, preferences_body, words
from shared.profile.user import enter_user, find_user
from shared.web.problem import Problem, RefusedError
from shared.wire.channel import AddressKind, Category, Channels

_SQL: Final = load_queries("profile")


@dataclass(frozen=True, slots=True)
class Preferences:
    """own: the user's words, and nothing else. consents: channel -> granted, of those ever spoken of."""

    own: Words
    consents: Mapping[str, bool]

    def body(self, channels: Channels) -> dict[str, Any]:
        return preferences_body(self.own, self.consents, channels.names)


NOTHING_SAID: Final = Preferences({}, {})


async def read_preferences(
    connection: Connection, ring: KeyRing, channels: Channels, external_id: str
) -> Preferences | None:
    """None for an unknown user."""
    user_id = await find_user(connection, external_id)
    if user_id is None:
        return None
    rows = await connection.fetch(_SQL["preferences"], user_id)
    own = {(Category(row["category"]), row["channel"], row["type"]): row["enabled"] for row in rows}
    return Preferences(own, await _consents(connection, ring, channels, user_id))


async def write_preferences(connection: Connection, external_id: str, said: Told) -> int:
    """Store what is said, all of it or, where a type is unknown, nothing: RefusedError. The user's `user_id`, whose
    remembered words (`Kind.PREFERENCES`) are stale once the caller commits.

    The consent ledger is not touched: a preference is a wish, a consent is a statement with evidence.
    """
    found = words(said, await type_categories(connection, said.types))
    if isinstance(found, Problem):
        raise RefusedError(found)
    user_id = await enter_user(connection, external_id)
    await put_preferences(connection, {(user_id, *word): wanted for word, wanted in found.items()})
    return user_id


async def type_categories(connection: Connection, names: Collection[str]) -> Mapping[str, Category]:
    """The categories of those types that exist, by name."""
    if not names:
        return {}
    rows = await connection.fetch(_SQL["types"], sorted(names))
    return {row["type"]: Category(row["category"]) for row in rows}


async def _consents(connection: Connection, ring: KeyRing, channels: Channels, user_id: int) -> Mapping[str, bool]:
    addresses = await connection.fetchrow(_SQL["addresses"], user_id)
    if addresses is None:  # erased since
        return {}
    keys = {AddressKind.EMAIL_ADDRESS: addresses["email_key"], AddressKind.PHONE: addresses["phone_key"]}
    own = user_subject(ring, user_id)
    subjects = {spec.name: keys.get(spec.address_kind, own) for spec in channels.specs}
    asked = [(key, channel, Purpose.MARKETING) for channel, key in subjects.items() if key is not None]
    found = await read_states(connection, asked)
    return {channel: word.granted for (_, channel, _), word in found.items()}
