"""Facts of a whole batch in a handful of queries, whatever its size."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from services.router.notification import Notification
from services.router.template import TemplateChoice
from shared.core.catalogue import NotificationType
from shared.decision.facts import Facts, Mode, Target
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.wire.channel import AddressKind, Category, Channels

_ADDRESSED: Final = frozenset({AddressKind.EMAIL_ADDRESS, AddressKind.PHONE})

Preferences = Mapping[tuple[Category, str, str], bool]
"""(category, channel, type or '') -> enabled, of one user."""


class FactStore:
    """Reads what the rules may look at. A fact is at most as old as the batch."""

    def __init__(self, pool: Pool, channels: Channels) -> None:
        self._pool = pool
        self._queries = load_queries("router")
        self._channels = channels

    async def load(
        self, notifications: Sequence[tuple[Notification, NotificationType]], templates: TemplateChoice
    ) -> dict[UUID, Facts]:
        """Facts by notification id: devices, preferences, suppressions and allow-lists, one query each."""
        users = sorted({n.user_id for n, _ in notifications if n.user_id is not None})
        with translated():
            async with self._pool.acquire() as connection:
                devices = await self._devices(connection, users)
                preferences = await self._preferences(connection, users)
                targets = {n.id: self._targets(n, devices) for n, _ in notifications}
                suppressed = await self._suppressed(connection, targets)
                allow_lists = await self._allow_lists(connection, [n for n, _ in notifications])
        nobody: Preferences = {}
        return {
            n.id: Facts(
                notification_id=n.id,
                type=notification_type,
                mode=n.mode,
                expires_at=n.expires_at,
                send_at=n.send_at,
                asked=n.channels,
                targets=targets[n.id],
                templates=frozenset(templates.by_channel(n.type, n.locale)),
                preferences=self._spoken(
                    preferences.get(n.user_id, nobody) if n.user_id else nobody, notification_type
                ),
                suppressed=suppressed,
                allow_list=allow_lists.get(n.api_key_id, frozenset()) if n.api_key_id else frozenset(),
                zone=n.recipient.zone,
            )
            for n, notification_type in notifications
        }

    async def _devices(self, connection: Connection, users: Sequence[int]) -> Mapping[int, tuple[Target, ...]]:
        if not users:
            return {}
        found: defaultdict[int, list[Target]] = defaultdict(list)
        for row in await connection.fetch(self._queries["devices"], users):
            found[row["user_id"]].append(Target(row["token_key"], row["token_sealed"], row["platform"], row["app_id"]))
        return {user_id: tuple(targets) for user_id, targets in found.items()}

    async def _preferences(self, connection: Connection, users: Sequence[int]) -> Mapping[int, Preferences]:
        if not users:
            return {}
        found: defaultdict[int, dict[tuple[Category, str, str], bool]] = defaultdict(dict)
        for row in await connection.fetch(self._queries["preferences"], users):
            found[row["user_id"]][Category(row["category"]), row["channel"], row["type"]] = row["enabled"]
        return found

    async def _suppressed(
        self, connection: Connection, targets: Mapping[UUID, Mapping[str, tuple[Target, ...]]]
    ) -> frozenset[tuple[str, bytes]]:
        asked = {
            (channel, target.key)
            for by_channel in targets.values()
            for channel, found in by_channel.items()
            for target in found
        }
        if not asked:
            return frozenset()
        channels, keys = zip(*asked, strict=True)
        rows = await connection.fetch(self._queries["suppressions"], channels, keys)
        return frozenset((row["channel"], row["address_key"]) for row in rows)

    async def _allow_lists(
        self, connection: Connection, notifications: Sequence[Notification]
    ) -> Mapping[UUID, frozenset[bytes]]:
        keys = sorted({n.api_key_id for n in notifications if n.mode is Mode.TEAM and n.api_key_id is not None})
        if not keys:
            return {}
        rows = await connection.fetch(self._queries["allow_lists"], keys)
        return {row["id"]: frozenset(row["allow_list"]) for row in rows}

    def _targets(
        self, notification: Notification, devices: Mapping[int, tuple[Target, ...]]
    ) -> dict[str, tuple[Target, ...]]:
        targets: dict[str, tuple[Target, ...]] = {}
        for spec in self._channels.specs:
            if spec.address_kind in _ADDRESSED:
                address = notification.recipient.addresses.get(spec.name)
                if address is not None:
                    targets[spec.name] = (Target(*address),)
            elif spec.address_kind is AddressKind.DEVICE and notification.user_id is not None:
                targets[spec.name] = devices.get(notification.user_id, ())
        return targets

    def _spoken(self, preferences: Preferences, notification_type: NotificationType) -> dict[str, bool]:
        """The user's word on each channel: the type's own before the category's."""
        spoken: dict[str, bool] = {}
        for scope in ("", notification_type.name):
            for (category, channel, of_type), enabled in preferences.items():
                if of_type == scope and category is notification_type.category:
                    spoken[channel] = enabled
        return spoken
