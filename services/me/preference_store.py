"""The user's words, read and written as the role of this service may."""

from collections.abc import Awaitable, Callable

from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.profile.preference import Told
from shared.profile.preference_record import NOTHING_SAID, Preferences, read_preferences, write_preferences
from shared.runtime.keyring import RingSource
from shared.wire.channel import Channels

Changed = Callable[[int], Awaitable[None]]
"""Tells other processes, after the commit, that this user's preferences are others now."""


class PreferenceStore:
    """Raises UnavailableError when PostgreSQL cannot be asked."""

    def __init__(self, pool: Pool, channels: Channels, rings: RingSource, changed: Changed) -> None:
        self._pool = pool
        self._channels = channels
        self._rings = rings
        self._changed = changed

    async def read(self, external_id: str) -> Preferences:
        """An unknown user has said nothing."""
        with translated():
            async with self._pool.acquire() as connection:
                found = await read_preferences(connection, self._rings.ring, self._channels, external_id)
        return found or NOTHING_SAID

    async def write(self, external_id: str, said: Told) -> None:
        """As `write_preferences`."""
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                user_id = await write_preferences(connection, external_id, said)
        await self._changed(user_id)
