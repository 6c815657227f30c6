"""What Ulak's own database knows of a batch's users and addresses, in one query."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from services.relay.email.store import fetch
from shared.core.lifecycle import Reason
from shared.decision.email import Preferences
from shared.postgres.consent import Going, read_refused
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.wire.channel import Category

_CHANNEL: Final = "EMAIL"


@dataclass(frozen=True, slots=True)
class EmailFacts:
    """locales, zones and preferences by the service's id of the user; users Ulak does not know are absent.

    Addresses by their keys; what each set of them means, `shared.decision.email.Known` tells.
    """

    locales: Mapping[str, str | None] = field(default_factory=dict)
    zones: Mapping[str, str | None] = field(default_factory=dict)
    preferences: Mapping[str, Preferences] = field(default_factory=dict)
    suppressed: frozenset[bytes] = frozenset()
    unsolicited: frozenset[bytes] = frozenset()
    consented: frozenset[bytes] = frozenset()


class FactStore:
    def __init__(self, own: Pool) -> None:
        self._own = own
        self._sql: Final = load_queries("email_messages")

    async def load(self, user_ids: Iterable[str], target_keys: Iterable[bytes]) -> EmailFacts:
        """Facts of a batch. Raises asyncpg's errors."""
        locales: dict[str, str | None] = {}
        zones: dict[str, str | None] = {}
        preferences: defaultdict[str, dict[tuple[Category, str, str], bool]] = defaultdict(dict)
        addresses: defaultdict[str, set[bytes]] = defaultdict(set)
        rows = await fetch(self._own, self._sql["email_facts"], sorted(set(user_ids)), sorted(set(target_keys)))
        for row in rows:
            if row["address_key"] is not None:
                addresses[row["word"]].add(row["address_key"])
            elif row["category"] is not None:
                key = (Category(row["category"]), _CHANNEL, row["type"])
                preferences[row["external_id"]][key] = row["enabled"]
            else:
                locales[row["external_id"]] = row["locale"]
                zones[row["external_id"]] = row["time_zone"]
        words = {word: frozenset(addresses[word]) for word in ("suppressed", "unsolicited", "consented")}
        return EmailFacts(locales, zones, preferences, **words)

    async def refused(self, target_keys: Sequence[bytes]) -> Mapping[int, Reason]:
        """Which addresses marketing must not go to as consents and suppressions stand now, by position (C5)."""
        async with self._own.acquire() as connection, connection.transaction():
            return await read_refused(connection, _CHANNEL, [Going(key, key) for key in target_keys])
