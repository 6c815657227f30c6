"""Loading recipients with devices and preferences: addresses are keyed and sealed here, before they are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
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
    """One user as given: None means "not said", which leaves what is known, as no attributes do. phone is E.164."""

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


@dataclass(frozen=True, slots=True)
class Put:
    """What one call wrote. user_ids: ours by the outside's, of everybody in the call; created: how many of them are
    new; devices: how many tokens.
    """

    user_ids: Mapping[str, int]
    created: int
    devices: int


async def push_recipients(pool: Pool, ring: KeyRing, profiles: Sequence[RecipientProfile]) -> Loaded:
    """Insert or update all, a transaction per 500, in their order.

    Raises UnavailableError; what was loaded before it stays, and loading again is harmless.
    """
    total = Loaded()
    for start in range(0, len(profiles), BATCH):
        with translated():
            async with pool.acquire() as connection, connection.transaction():
                put = await put_recipients(connection, ring, profiles[start : start + BATCH])
        updated = len(put.user_ids) - put.created
        total = Loaded(total.created + put.created, total.updated + updated, total.devices + put.devices)
    return total


async def put_recipients(connection: Connection, ring: KeyRing, profiles: Sequence[RecipientProfile]) -> Put:
    """Insert or update all in the caller's transaction, to the effect of one after the other.

    So a user may come twice (what the later one says replaces it), and a device is whoever's had it last. Raises what
    asyncpg raises.
    """
    queries = load_queries("recipient")
    rows = await connection.fetch(queries["put_recipients"], *_columns(ring, _merged(profiles)))
    user_ids = {row["external_id"]: row["user_id"] for row in rows}
    devices = {device.token: (user_ids[p.external_id], device) for p in profiles for device in p.devices}
    await put_devices(connection, ring, devices)
    await put_preferences(
        connection,
        {
            (user_ids[p.external_id], preference.category, preference.channel, preference.type): preference.enabled
            for p in profiles
            for preference in p.preferences
        },
    )
    return Put(user_ids, sum(row["created"] for row in rows), len(devices))


async def put_dated(
    connection: Connection, ring: KeyRing, profiles: Sequence[RecipientProfile], moments: Sequence[datetime]
) -> None:
    """Insert or update each of the profiles as it was at its moment; whoever was changed later stays as they are.

    A user comes once. Neither devices nor preferences are taken. Raises what asyncpg raises.
    """
    await connection.execute(load_queries("recipient")["put_dated"], *_columns(ring, profiles), moments)


async def put_devices(connection: Connection, ring: KeyRing, devices: Mapping[str, tuple[int, DeviceProfile]]) -> None:
    """Store token -> (user_id, device) within the caller's transaction; a device of somebody else changes hands."""
    if devices:
        tokens = [sealed_address(ring, "PUSH", token, token) for token in devices]
        await connection.execute(
            load_queries("recipient")["put_devices"],
            [user_id for user_id, _ in devices.values()],
            [key for key, _ in tokens],
            [sealed for _, sealed in tokens],
            [device.platform for _, device in devices.values()],
            [device.app_id for _, device in devices.values()],
            [device.environment for _, device in devices.values()],
        )


async def put_preferences(connection: Connection, words: Mapping[tuple[int, Category, str, str], bool]) -> None:
    """Store (user_id, category, channel, type or '') -> enabled within the caller's transaction; the others stay."""
    if words:
        user, category, channel, of_type = zip(*words, strict=True)
        await connection.execute(
            load_queries("recipient")["put_preferences"], user, category, channel, of_type, list(words.values())
        )


def _merged(profiles: Sequence[RecipientProfile]) -> list[RecipientProfile]:
    """Each user once, with the last of what is said of each column; devices and preferences aside."""
    found: dict[str, RecipientProfile] = {}
    for said in profiles:
        before = found.get(said.external_id)
        found[said.external_id] = (
            said
            if before is None
            else replace(
                before,
                email=said.email or before.email,
                phone=said.phone or before.phone,
                locale=said.locale or before.locale,
                time_zone=said.time_zone or before.time_zone,
                attributes=said.attributes or before.attributes,
            )
        )
    return list(found.values())


def _columns(ring: KeyRing, profiles: Sequence[RecipientProfile]) -> tuple[Sequence[Any], ...]:
    emails = [
        sealed_address(ring, "EMAIL", p.email.canonical, p.email.text) if p.email else (None, None) for p in profiles
    ]
    phones = [sealed_address(ring, "SMS", p.phone, p.phone) if p.phone else (None, None) for p in profiles]
    return (
        [p.external_id for p in profiles],
        [key for key, _ in emails],
        [sealed for _, sealed in emails],
        [key for key, _ in phones],
        [sealed for _, sealed in phones],
        [p.locale for p in profiles],
        [p.time_zone for p in profiles],
        [None if p.attributes is None else dict(p.attributes) for p in profiles],
    )


def sealed_address(ring: KeyRing, channel: str, canonical: str, text: str) -> tuple[bytes, bytes]:
    """Target key, and the address sealed with it as its row."""
    key = target_key(ring, channel, canonical)
    return key, seal(ring, Purpose.ADDRESS, key, text.encode())
