"""A user's devices, read and written as the role of this service may."""

from collections.abc import Sequence

import asyncpg

from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.profile.device import Device
from shared.profile.device_record import devices_of, put_device, remove_device
from shared.runtime.keyring import RingSource


class DeviceStore:
    """Raises UnavailableError when PostgreSQL cannot be asked."""

    def __init__(self, pool: Pool, rings: RingSource, *, max_devices: int) -> None:
        self._pool = pool
        self._rings = rings
        self._max_devices = max_devices

    async def put(self, external_id: str, device: Device) -> asyncpg.Record:
        """As `put_device`, all in one transaction."""
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                return await put_device(
                    connection, self._rings.ring, external_id, device, max_devices=self._max_devices
                )

    async def all(self, external_id: str) -> Sequence[asyncpg.Record]:
        """The user's devices, last seen first; an unknown user has none."""
        with translated():
            async with self._pool.acquire() as connection:
                return await devices_of(connection, external_id) or ()

    async def remove(self, external_id: str, name: str) -> bool:
        """Forget the device of this name, the app's or ours; False if this user has none."""
        with translated():
            async with self._pool.acquire() as connection:
                return await remove_device(connection, external_id, name) is not None
