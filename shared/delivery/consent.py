"""Marketing, asked about once more right before it is handed over: consents and suppressions as they stand now (C5)."""

from collections.abc import Mapping, Sequence

from shared.core.consent import user_subject
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing
from shared.delivery.row import DeliveryRow
from shared.postgres.consent import Going, read_refused
from shared.postgres.pool import Pool
from shared.runtime.keyring import RingSource
from shared.wire.channel import ADDRESSED, ChannelSpec


class ConsentCheck:
    """One channel's. Raises what asyncpg raises."""

    def __init__(self, pool: Pool, channel: ChannelSpec, rings: RingSource) -> None:
        self._pool = pool
        self._channel = channel.name
        self._by_address = channel.address_kind in ADDRESSED
        self._rings = rings

    async def refused(self, rows: Sequence[DeliveryRow]) -> Mapping[int, Reason]:
        """Which of the rows must not go, by position. One query for all marketing among them, none without any.

        Nothing is remembered: what was withdrawn and committed before the call counts.
        """
        marketing = [position for position, row in enumerate(rows) if row.marketing]
        if not marketing:
            return {}
        ring = self._rings.ring
        found = await read_refused(self._pool, self._channel, [self._going(rows[each], ring) for each in marketing])
        return {marketing[position]: reason for position, reason in found.items()}

    def _going(self, row: DeliveryRow, ring: KeyRing) -> Going:
        subject = row.key.target_key if self._by_address else _user(row, ring)
        return Going(subject, row.key.target_key, live=row.mode != "test")


def _user(row: DeliveryRow, ring: KeyRing) -> bytes | None:
    return None if row.user_id is None else user_subject(ring, row.user_id)
