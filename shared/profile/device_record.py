"""A user's devices in PostgreSQL. Each works on the caller's connection and raises what asyncpg raises."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg

from shared.core.identifier import DEVICE, InvalidIdError, parse_public_id
from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.profile.device import Device, sealed
from shared.profile.user import enter_user, find_user

_SQL: Final = load_queries("profile")


async def put_device(
    connection: Connection, ring: KeyRing, external_id: str, device: Device, *, max_devices: int
) -> asyncpg.Record:
    """Register or see again, in the caller's transaction; the row as it is now, `created` if there was none.

    A token that another user had moves to this one, an installation's former token goes, and above the limit go the
    devices that were not seen for longest.
    """
    key, address = sealed(ring, device)
    user_id = await enter_user(connection, external_id)
    await connection.execute(_SQL["hold_devices"], user_id)
    await connection.execute(_SQL["lock_devices"], user_id, key, device.app_id, device.device_id)
    await connection.execute(_SQL["replace_installation"], user_id, key, device.app_id, device.device_id)
    row = await connection.fetchrow(
        _SQL["put_device"],
        user_id,
        key,
        device.app_id,
        device.device_id,
        address,
        device.platform,
        device.environment,
        device.permission,
        device.active,
    )
    await connection.execute(_SQL["trim_devices"], user_id, max_devices)
    assert row is not None
    return row


async def devices_of(connection: Connection, external_id: str) -> Sequence[asyncpg.Record] | None:
    """The user's devices, last seen first; None for an unknown user."""
    user_id = await find_user(connection, external_id)
    if user_id is None:
        return None
    found: Sequence[asyncpg.Record] = await connection.fetch(_SQL["devices"], user_id)
    return found


async def remove_device(connection: Connection, external_id: str, name: str) -> asyncpg.Record | None:
    """Forget the device of this name, the app's or ours: its `id` and `user_id`; None if this user has none."""
    user_id = await find_user(connection, external_id)
    if user_id is None:
        return None
    return await connection.fetchrow(_SQL["remove_device"], user_id, name, _own_id(name))


def _own_id(name: str) -> UUID | None:
    try:
        return parse_public_id(DEVICE, name)
    except InvalidIdError:
        return None
