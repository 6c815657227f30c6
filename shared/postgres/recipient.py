"""Loading recipients with devices and preferences: addresses are keyed and sealed here, before they are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shared.core.address import EmailAddress, target_key
from shared.core.sealing import KeyRing, Purpose, seal
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.wire.channel import Category

BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    token: str = field(repr=False)
    platform: str
    app_id: str = ""
    environment: str = "production"


@dataclass(frozen=True, slots=True)
class PreferenceProfile:
    """type '' speaks for the whole category."""

    category: Category
    channel: str
    enabled: bool
    type: str = ""


@dataclass(frozen=True, slots=True)
class RecipientProfile:
    """One user as given: None means "not said", which leaves what is known. phone is E.164."""

    external_id: str
    email: EmailAddress | None = field(default=None, repr=False)
    phone: str | None = field(default=None, repr=False)
    locale: str | None = None
    time_zone: str | None = None
    attributes: Mapping[str, Any] | None = field(default=None, repr=False)
    devices: tuple[DeviceProfile, ...] = ()
    preferences: tuple[PreferenceProfile, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    created: int = 0
    updated: int = 0
    devices: int = 0


async def push_recipients(pool: Pool, ring: KeyRing, profiles: Sequence[RecipientProfile]) -> Loaded:
    """Insert or update all, a transaction per 500; a user given twice in one call counts once, the last one stands.

    Raises UnavailableError; what was loaded before it stays, and loading again is harmless.
    """
    unique = list({profile.external_id: profile for profile in profiles}.values())
    total = Loaded()
    for start in range(0, len(unique), BATCH):
        batch = unique[start : start + BATCH]
        with translated():
            async with pool.acquire() as connection, connection.transaction():
                loaded = await _put(connection, ring, batch)
        total = Loaded(total.created + loaded.created, total.updated + loaded.updated, total.devices + loaded.devices)
    return total


async def _put(connection: Connection, ring: KeyRing, profiles: Sequence[RecipientProfile]) -> Loaded:
    queries = load_queries("recipient")
    emails = [_sealed(ring, "EMAIL", p.email.canonical, p.email.text) if p.email else (None, None) for p in profiles]
    phones = [_sealed(ring, "SMS", p.phone, p.phone) if p.phone else (None, None) for p in profiles]
    rows = await connection.fetch(
        queries["put_recipients"],
        [p.external_id for p in profiles],
        [key for key, _ in emails],
        [sealed for _, sealed in emails],
        [key for key, _ in phones],
        [sealed for _, sealed in phones],
        [p.locale for p in profiles],
        [p.time_zone for p in profiles],
        [None if p.attributes is None else dict(p.attributes) for p in profiles],
    )
    user_ids = {row["external_id"]: row["user_id"] for row in rows}
    devices = {device.token: (user_ids[p.external_id], device) for p in profiles for device in p.devices}
    if devices:
        tokens = [_sealed(ring, "PUSH", token, token) for token in devices]
        await connection.execute(
            queries["put_devices"],
            [user_id for user_id, _ in devices.values()],
            [key for key, _ in tokens],
            [sealed for _, sealed in tokens],
            [device.platform for _, device in devices.values()],
            [device.app_id for _, device in devices.values()],
            [device.environment for _, device in devices.values()],
        )
    preferences = {
        (user_ids[p.external_id], preference.category, preference.channel, preference.type): preference.enabled
        for p in profiles
        for preference in p.preferences
    }
    if preferences:
        user, category, channel, of_type = zip(*preferences, strict=True)
        await connection.execute(
            queries["put_preferences"], user, category, channel, of_type, list(preferences.values())
        )
    created = sum(row["created"] for row in rows)
    return Loaded(created, len(rows) - created, len(devices))


def _sealed(ring: KeyRing, channel: str, canonical: str, text: str) -> tuple[bytes, bytes]:
    """Target key, and the address sealed with it as its row."""
    key = target_key(ring, channel, canonical)
    return key, seal(ring, Purpose.ADDRESS, key, text.encode())
