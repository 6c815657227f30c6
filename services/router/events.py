"""`domain-events`: what happened elsewhere becomes notifications, by mappings stored as data."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import orjson

from services.router.application import ApplicationCache
from services.router.cloudevent import CloudEvent
from services.router.decider import REREAD_SEC, Decider
from services.router.mapping import Mapped, Unmappable, apply
from services.router.notification import Notification, Plan, owed_by
from services.router.plan import lettered
from services.router.publish import records
from services.router.store import DedupKey, Entry, Holder, RouterStore
from shared.core.catalogue import Catalogue, EventMapping, NotificationType
from shared.core.deduplication import mapping_key, request_fingerprint
from shared.core.identifier import lowest_id_at, new_id
from shared.core.lifecycle import NotificationState
from shared.core.sealing import Purpose, seal
from shared.decision.facts import Mode
from shared.kafka.record import Publisher, Received, Rejection
from shared.postgres.catalogue import CatalogueCache
from shared.runtime.keyring import RingSource
from shared.runtime.metrics import DUPLICATES, EVENTS_IGNORED
from shared.wire.channel import Channels

DEDUP_DAYS: Final = 7
"""A dedup row lives until the later of 7 days and expiry + 1 day (docs/data.md)."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """One notification that an event asks for. index: the message's place in the batch."""

    index: int
    received: Received[CloudEvent]
    type: NotificationType
    mapped: Mapped
    dedup: DedupKey
    fingerprint: bytes


class EventHandler:
    """Turns one poll's events into decided notifications, each with its deliveries, in one transaction.

    An event that is known already, by Kafka or by HTTP, creates nothing and re-publishes what it still owes; one with
    another body is recorded on the first notification and counted. An event type that no mapping wants is ignored.
    """

    def __init__(
        self,
        store: RouterStore,
        decider: Decider,
        catalogue: CatalogueCache,
        applications: ApplicationCache,
        ring_source: RingSource,
        publisher: Publisher,
        channels: Channels,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._decider = decider
        self._catalogue = catalogue
        self._applications = applications
        self._rings = ring_source
        self._publisher = publisher
        self._channels = channels
        self._clock = clock

    async def __call__(self, batch: Sequence[Received[CloudEvent]]) -> Sequence[Rejection]:
        """Returns when all is committed and acknowledged, with the poison among the events."""
        now = self._clock()
        wishes, problems = await self._wishes(batch)
        known = await self._store.holders(wish.dedup for wish in wishes)
        firsts: dict[DedupKey, _Wish] = {}
        for wish in wishes:
            if wish.dedup not in known:
                firsts.setdefault(wish.dedup, wish)
        created = await self._create(list(firsts.values()), now)
        plans = {plan.notification.id: plan for plan in created.plans}
        holders = known | await self._store.holders(created.unresolved(firsts))
        holders |= {key: Holder(id_, firsts[key].fingerprint) for key, id_ in created.ids.items() if id_ in plans}
        repeats = [wish for wish in wishes if firsts.get(wish.dedup) is not wish or wish.dedup not in created.won]
        await self._note_repeats(repeats, holders)
        repeated = await self._store.owed(
            holders[wish.dedup].notification_id
            for wish in repeats
            if wish.dedup in holders and holders[wish.dedup].notification_id not in plans
        )
        owed = [delivery for plan in created.plans for delivery in owed_by(plan, now)]
        await self._publisher.publish(records([*owed, *repeated], self._channels, now))
        problems |= self._decision_problems(firsts, created)
        return [Rejection(index, problem.reason, problem.detail) for index, problem in sorted(problems.items())]

    async def _wishes(self, batch: Sequence[Received[CloudEvent]]) -> tuple[list[_Wish], dict[int, Unmappable]]:
        """Every notification that the events ask for, and the first problem of each event that has one."""
        catalogue = await self._catalogue.get()
        if not all(catalogue.mappings(received.value.type) for received in batch):
            catalogue = await self._catalogue.get(max_age_sec=REREAD_SEC)
        wishes: list[_Wish] = []
        problems: dict[int, Unmappable] = {}
        for index, received in enumerate(batch):
            mappings = catalogue.mappings(received.value.type)
            if not mappings:
                EVENTS_IGNORED.inc()
                continue
            application = await self._applications.of_source(received.value.source)
            if application is None:
                problems[index] = Unmappable(
                    "unknown_source",
                    "no application has this CloudEvents `source`: name it under `applications` in the catalogue and "
                    "run `ulak templates push`, then `replay`",
                )
                continue
            for mapping in mappings:
                wish = self._wish(index, received, application, mapping, catalogue)
                if isinstance(wish, _Wish):
                    wishes.append(wish)
                else:
                    problems.setdefault(index, wish)
        return wishes, problems

    def _wish(
        self, index: int, received: Received[CloudEvent], application: int, mapping: EventMapping, catalogue: Catalogue
    ) -> _Wish | Unmappable:
        found = catalogue.type(mapping.notification_type)
        if found is None:
            return Unmappable("unknown_type", f"mapping {mapping.name}: no type {mapping.notification_type}")
        mapped = apply(mapping, received.value.body)
        if isinstance(mapped, Unmappable):
            return mapped
        fingerprint = request_fingerprint(
            self._rings.ring, recipient=mapped.recipient, type_name=found.name, params=mapped.params
        )
        dedup = DedupKey(application, received.value.id, mapping_key(found.name, mapping.role))
        return _Wish(index, received, found, mapped, dedup, fingerprint)

    async def _create(self, firsts: Sequence[_Wish], now: datetime) -> "_Created":
        recipients = await self._store.recipients(wish.mapped.recipient for wish in firsts)
        notifications: dict[DedupKey, Notification] = {}
        for wish in firsts:
            user_id, locale, recipient = recipients[wish.mapped.recipient]
            id_ = new_id()
            event_time = min(wish.received.value.time or wish.received.timestamp, now)
            notifications[wish.dedup] = Notification(
                id=id_,
                application_id=wish.dedup.application_id,
                event_id=wish.received.value.id,
                user_id=user_id,
                type=wish.type.name,
                message_class=wish.type.message_class,
                mode=Mode.LIVE,
                state=NotificationState.ACCEPTED,
                recipient=recipient,
                expires_at=event_time + wish.type.ttl,
                created_at=now,
                params_sealed=seal(self._rings.ring, Purpose.PARAMS, id_.bytes, orjson.dumps(wish.mapped.params)),
                params=wish.mapped.params,
                locale=locale,
                business_key=wish.mapped.business_key,
                event_time=event_time,
                traceparent=wish.received.value.traceparent,
                origin=_origin(wish.dedup),
            )
        decided = await self._decider.decide(list(notifications.values()), now)
        plans = {plan.notification.id: plan for plan in decided.plans}
        entries = [
            Entry(
                dedup=wish.dedup,
                fingerprint=wish.fingerprint,
                until=max(now + timedelta(days=DEDUP_DAYS), notifications[wish.dedup].expires_at + timedelta(days=1)),
                plan=plans[notifications[wish.dedup].id],
            )
            for wish in firsts
        ]
        saved = await self._store.enter(entries, now)
        await self._decider.settle(saved.plans)
        return _Created(
            ids={key: notification.id for key, notification in notifications.items()},
            plans=saved.plans,
            refused=dict(saved.refused),
        )

    async def _note_repeats(self, repeats: Sequence[_Wish], holders: dict[DedupKey, Holder]) -> None:
        """Count events seen before; record those whose body is another on the notification that was first."""
        others: list[tuple[UUID, UUID, str]] = []
        for wish in repeats:
            holder = holders.get(wish.dedup)
            if holder is None:
                continue
            if holder.fingerprint == wish.fingerprint:
                DUPLICATES.labels("same").inc()
            else:
                DUPLICATES.labels("other").inc()
                detail = f"event {wish.dedup.key!r} came again with another body: the first one stands"
                others.append((holder.notification_id, _repeat_id(wish), detail[:256]))
        await self._store.log_duplicates(others)

    def _decision_problems(self, firsts: dict[DedupKey, _Wish], created: "_Created") -> dict[int, Unmappable]:
        letters = lettered(created.plans)
        problems: dict[int, Unmappable] = {}
        for key, id_ in created.ids.items():
            index = firsts[key].index
            if id_ in letters:
                problems[index] = Unmappable(letters[id_].reason, letters[id_].detail)
            elif id_ in created.refused:
                detail = f"the database refused the row: {created.refused[id_]}"
                problems[index] = Unmappable("unstorable", detail)
        return problems


@dataclass(frozen=True, slots=True)
class _Created:
    """ids: the id each first wish was to get. plans: what was written. refused: by the database, and why."""

    ids: dict[DedupKey, UUID]
    plans: tuple[Plan, ...]
    refused: dict[UUID, str]

    @property
    def won(self) -> frozenset[DedupKey]:
        written = {plan.notification.id for plan in self.plans}
        return frozenset(key for key, id_ in self.ids.items() if id_ in written)

    def unresolved(self, firsts: Iterable[DedupKey]) -> list[DedupKey]:
        """Keys that another process claimed meanwhile."""
        won = self.won
        return [key for key in firsts if key not in won and self.ids[key] not in self.refused]


def _origin(dedup: DedupKey) -> bytes:
    """The event, by whatever id its notification would get: 16 bytes."""
    return hashlib.sha256(orjson.dumps([dedup.application_id, dedup.key, dedup.mapping])).digest()[:16]


def _repeat_id(wish: _Wish) -> UUID:
    """A UUIDv7 that is the same whenever this very message is read again: its time, and a hash of what it says."""
    digest = hashlib.sha256(orjson.dumps([wish.dedup.key, wish.dedup.mapping]) + wish.fingerprint).digest()
    noise = int.from_bytes(digest[:10], "big") & ~(0xF << 76) & ~(0x3 << 62)
    return UUID(int=lowest_id_at(wish.received.timestamp).int | noise | (0x7 << 76) | (0x2 << 62))
