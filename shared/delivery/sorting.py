"""The deliveries of a batch of which nothing is sent now: settled, put off, waiting, or told of once more."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from shared.core.lifecycle import DeliveryStatus
from shared.core.reference import DeliveryKey
from shared.delivery.batch import Batch
from shared.delivery.hours import AllowedHours
from shared.delivery.message import event_record, last_event
from shared.delivery.route import Wait as WaitForProvider
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.store import DeliveryStore, Settled
from shared.delivery.triage import Attempt, Drop, PutOff, Repeat, Settle, Step, Wait, later, triage
from shared.kafka.record import Publisher
from shared.runtime.metrics import HINTS_DROPPED, OUTCOMES, ROUTE_WAITS
from shared.wire.channel import Lane, MessageClass


class Sorting:
    """Carries out what triage says of one lane's deliveries. Safe for several batches at once."""

    def __init__(
        self,
        lane: Lane,
        *,
        store: DeliveryStore,
        hours: AllowedHours,
        publisher: Publisher,
        clock: Callable[[], datetime],
    ) -> None:
        self._lane = lane
        self._store = store
        self._hours = hours
        self._publisher = publisher
        self._clock = clock

    async def sort(self, batch: Batch, steps: Iterable[tuple[DeliveryRow | None, Step]]) -> list[DeliveryRow]:
        """Deal with everything but the attempts, and give those. Steps without a row are hints for nothing."""
        attempts: list[DeliveryRow] = []
        waits: list[Owed] = []
        repeats: list[DeliveryRow] = []
        over: list[DeliveryRow] = []
        settled: list[Settled] = []
        for row, step in steps:
            if isinstance(step, Drop):
                HINTS_DROPPED.labels("workers", step.why).inc()
            if row is None:
                continue
            match step:
                case Attempt():
                    attempts.append(row)
                case Wait(owed):
                    waits.append(owed)
                case PutOff():
                    over.append(row)
                case Repeat():
                    repeats.append(row)
                case Settle(reason):
                    settled.append(Settled(row, DeliveryStatus.SKIPPED, reason))
                case Drop():
                    continue
        await self.settle(batch, settled)
        await self._hours.put_off(over, self._clock())
        await self._repeat(batch, repeats)
        await self.publish_hints(batch, waits)
        return attempts

    async def settle(self, batch: Batch, settled: Sequence[Settled]) -> None:
        """End rows that are PENDING, and tell of it; those that are not any more are looked at again."""
        if not settled:
            return
        now = self._clock()
        ended = await self._store.settle(settled, now)
        events = []
        for entry in settled:
            if entry.row.key not in ended:
                continue
            OUTCOMES.labels(self._lane.name, "", entry.reason).inc()
            events.append(
                event_record(
                    entry.row.key,
                    status=entry.status,
                    reason=entry.reason,
                    attempt=entry.row.attempt,
                    provider=entry.row.provider,
                    at=now,
                )
            )
            if entry.dead_letter:
                batch.reject(entry.row.key, entry.reason, entry.detail or "")
        await self._publisher.publish(events)
        await self.look_again(batch, [entry.row.key for entry in settled if entry.row.key not in ended])

    async def _repeat(self, batch: Batch, rows: Sequence[DeliveryRow]) -> None:
        """Settled rows: a worker may have died between its commit and its flush, so both are told again."""
        if not rows:
            return
        await self._publisher.publish([last_event(row) for row in rows])
        failed = [row for row in rows if row.status is DeliveryStatus.FAILED]
        for key, letter in (await self._store.open_dead_letters(failed)).items():
            batch.reject(key, letter.error_class, letter.detail)

    async def look_again(self, batch: Batch, keys: Sequence[DeliveryKey]) -> None:
        """Rows that turned out not to be as they were read: what their rows say now is told, nothing is sent."""
        if not keys:
            return
        rows, now = await self._store.load(keys), self._clock()
        found = [rows[key] for key in keys if key in rows]
        hints = [row.hint(attempt=row.attempt, not_before=None) for row in found]
        steps = [triage(hint, row, self._lane, now) for hint, row in zip(hints, found, strict=True)]
        again = await self.sort(batch, zip(found, steps, strict=True))
        await self.publish_hints(batch, [self.after_shortest_tier(row) for row in again])

    async def wait_for_provider(self, batch: Batch, waits: Sequence[tuple[DeliveryRow, WaitForProvider]]) -> None:
        """What no provider takes now comes again when one may; it is told, except of bulk, where there is so much."""
        if not waits:
            return
        now = self._clock()
        ROUTE_WAITS.labels(self._lane.name).inc(len(waits))
        if self._lane.message_class < MessageClass.BULK:
            await self._store.log_waits([(row, wait.note) for row, wait in waits])
        await self.publish_hints(
            batch, [later(row, self._lane, min(wait.until, row.expires_at), now) for row, wait in waits]
        )

    async def publish_hints(self, batch: Batch, owed: Sequence[Owed]) -> None:
        """Those of messages with several recipients are kept by the batch until its end."""
        await self._publisher.publish(batch.hints(owed))

    def after_shortest_tier(self, row: DeliveryRow) -> Owed:
        """The hint of a row that cannot be worked on now, for no reason of its own."""
        now = self._clock()
        return later(row, self._lane, now + timedelta(seconds=self._lane.tiers[0]), now)
