"""A batch of hints through a lane: load, triage, prepare, tokens, claim, send, record, publish (semantics.md, 3).

The decisions are in triage.py, prepare.py and plan.py; this file only keeps their order. A batch may come again, wholly
or in part, after a crash at any line: what is then found done is told again, and nothing is sent twice that a row does
not allow to be.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from shared.core.identifier import new_id
from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason
from shared.core.outcome import Ambiguous, Outcome, ProviderDown
from shared.core.ports import Prepared, Sender, SendWindow
from shared.core.reference import DeliveryKey
from shared.delivery.answers import answers
from shared.delivery.message import event_record, hint_record, last_event
from shared.delivery.plan import Record, plan
from shared.delivery.prepare import Unprepared, prepare
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.store import Changed, DeliveryStore, Settled, in_key_order
from shared.delivery.triage import Attempt, Drop, Repeat, Settle, Wait, by_key, later, triage
from shared.delivery.wire import Claim, Places, Wire
from shared.kafka.record import Publisher, Received, Rejection
from shared.kafka.record import Record as KafkaRecord
from shared.postgres.errors import UNAVAILABLE
from shared.providers.simulated import NAME as SIMULATED
from shared.redis_store.pacer import Pacer
from shared.runtime.keyring import RingSource
from shared.runtime.metrics import HINTS_DROPPED, OUTCOMES, PROVIDER_MISSING, SEND_LATENCY, UNRECOGNISED
from shared.wire.channel import Lane, MessageClass
from shared.wire.message import HEADER_TRACEPARENT, DeliveryHint

_log = structlog.get_logger(__name__)

PATIENCE_SEC: Final = 2.0
"""A longer wait for tokens goes to a retry tier, so that one drained provider does not hold the others' partition."""
RECORD_SEC: Final = 1.0
"""Of a lease, what is kept for recording: a send may end as late as its deadline and must still find its claim."""
_CLAIMS_AT_ONCE: Final = 2
"""Parts of one batch in flight together, so that the wire does not wait for the database."""
_WIRES_CLAIMED: Final = 2
"""What may be claimed, in wires full: one being sent, one made ready meanwhile. One claim is never more than one."""
_RECORD_RETRY_SEC: Final = 0.2

Route = Callable[[DeliveryRow], str]
"""Which provider a delivery goes to."""


@dataclass(slots=True)
class _Batch:
    """What one batch has found out so far."""

    messages: Mapping[DeliveryKey, tuple[int, Received[DeliveryHint]]]
    rejections: list[Rejection]


class Pipeline:
    """The `Handler` of one lane, for its topic and all its retry tiers. Safe for several batches at once."""

    def __init__(
        self,
        lane: Lane,
        *,
        store: DeliveryStore,
        senders: Mapping[str, Sender],
        route: Route,
        ring: RingSource,
        pacer: Pacer,
        publisher: Publisher,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Senders by provider name, the simulated one among them; stopping: True once the process was told to end."""
        self._lane = lane
        self._critical = lane.message_class is MessageClass.CRITICAL
        self._latency = SEND_LATENCY.labels(lane.name)
        self._store = store
        self._senders = senders
        self._wires = {name: Wire(_WIRES_CLAIMED * sender.concurrency) for name, sender in senders.items()}
        self._route = route
        self._ring = ring
        self._pacer = pacer
        self._publisher = publisher
        self._stopping = stopping
        self._clock = clock
        self._jitter = jitter

    async def __call__(self, received: Sequence[Received[DeliveryHint]]) -> Sequence[Rejection]:
        """Work on one poll's hints. Returns when every effect is committed and published; then offsets may move."""
        batch = _Batch(by_key(received), [])
        rows = await self._store.load(batch.messages.keys())
        hints = [(message.value, rows.get(key)) for key, (_, message) in batch.messages.items()]
        attempts = await self._sort(batch, hints)
        ready = await self._prepare(batch, in_key_order(attempts, lambda row: row.key))
        groups: dict[str, list[tuple[DeliveryRow, Prepared]]] = defaultdict(list)
        for row, prepared in ready:
            groups[SIMULATED if row.mode == "test" else self._route(row)].append((row, prepared))
        await _together(self._work(batch, provider, group) for provider, group in groups.items())
        return batch.rejections

    # ------------------------------------------------------------ before the claim

    async def _sort(self, batch: _Batch, hints: Iterable[tuple[DeliveryHint, DeliveryRow | None]]) -> list[DeliveryRow]:
        """Triage hints against their rows; everything but the attempts is dealt with here."""
        now = self._clock()
        attempts: list[DeliveryRow] = []
        waits: list[Owed] = []
        repeats: list[DeliveryRow] = []
        settled: list[Settled] = []
        for hint, row in hints:
            step = triage(hint, row, self._lane, now)
            if isinstance(step, Drop):
                HINTS_DROPPED.labels("workers", step.why).inc()
            if row is None:
                continue
            match step:
                case Attempt():
                    attempts.append(row)
                case Wait(owed):
                    waits.append(owed)
                case Repeat():
                    repeats.append(row)
                case Settle(reason):
                    settled.append(Settled(row, DeliveryStatus.SKIPPED, reason))
                case Drop():
                    continue
        await self._settle(batch, settled)
        await self._repeat(batch, repeats)
        await self._publish_hints(batch, waits)
        return attempts

    async def _prepare(self, batch: _Batch, rows: Sequence[DeliveryRow]) -> list[tuple[DeliveryRow, Prepared]]:
        """Open address and content of each; what cannot be opened waits for its key or is settled."""
        ready: list[tuple[DeliveryRow, Prepared]] = []
        settled: list[Settled] = []
        waits: list[Owed] = []
        for row in rows:
            result = prepare(row, self._ring.ring)
            if isinstance(result, Unprepared) and result.status is DeliveryStatus.PENDING and self._ring.refresh():
                result = prepare(row, self._ring.ring)
            if isinstance(result, Prepared):
                ready.append((row, result))
            elif result.status is DeliveryStatus.PENDING:
                _log.error("key_unknown", reference=row.key.reference, detail=result.detail)
                waits.append(self._after_shortest_tier(row))
            else:
                failed = result.status is DeliveryStatus.FAILED
                settled.append(Settled(row, result.status, result.reason, result.detail, dead_letter=failed))
        await self._settle(batch, settled)
        await self._publish_hints(batch, waits)
        return ready

    async def _settle(self, batch: _Batch, settled: Sequence[Settled]) -> None:
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
                self._reject(batch, entry.row.key, entry.reason, entry.detail or "")
        await self._publisher.publish(events)
        await self._look_again(batch, [entry.row.key for entry in settled if entry.row.key not in ended])

    async def _repeat(self, batch: _Batch, rows: Sequence[DeliveryRow]) -> None:
        """Settled rows: a worker may have died between its commit and its flush, so both are told again."""
        if not rows:
            return
        await self._publisher.publish([last_event(row) for row in rows])
        failed = [row for row in rows if row.status is DeliveryStatus.FAILED]
        for key, letter in (await self._store.open_dead_letters(failed)).items():
            self._reject(batch, key, letter.error_class, letter.detail)

    # ------------------------------------------------------------ one provider's share of a batch

    async def _work(self, batch: _Batch, provider: str, group: Sequence[tuple[DeliveryRow, Prepared]]) -> None:
        sender = self._senders.get(provider)
        if sender is None:
            PROVIDER_MISSING.labels(self._lane.name, provider).inc(len(group))
            _log.error(
                "provider_not_configured",
                lane=self._lane.name,
                provider=provider,
                waiting=len(group),
                remedy=f"set ULAK_{provider.upper()}_* (docs/settings.md)",
            )
            await self._publish_hints(batch, [self._after_shortest_tier(row) for row, _ in group])
            return
        share = max(1, self._lane.poll_batch // _CLAIMS_AT_ONCE)
        await _together(
            self._send_share(batch, sender, group[start : start + share]) for start in range(0, len(group), share)
        )

    async def _send_share(self, batch: _Batch, sender: Sender, group: Sequence[tuple[DeliveryRow, Prepared]]) -> None:
        wire = self._wires[sender.provider]
        pending = list(group)
        while pending:
            if self._stopping():
                await self._publish_hints(batch, [_unclaimed(row) for row, _ in pending])
                return
            places = await wire.take(min(len(pending), sender.concurrency))
            try:
                granted = await self._tokens(sender.provider, places.count)
                if not granted:
                    await self._publish_hints(batch, [self._after_shortest_tier(row) for row, _ in pending])
                    return
                taken, pending = pending[:granted], pending[granted:]
                await self._claim_and_send(batch, sender, taken, places)
            finally:
                await places.leave()

    async def _tokens(self, provider: str, wanted: int) -> int:
        if provider == SIMULATED:
            return wanted
        return await self._pacer.take(provider, wanted, critical=self._critical, patience_sec=PATIENCE_SEC)

    async def _claim_and_send(
        self, batch: _Batch, sender: Sender, taken: Sequence[tuple[DeliveryRow, Prepared]], places: Places
    ) -> None:
        claim_id, now, claimed_at = new_id(), self._clock(), time.monotonic()
        ours = await self._store.claim(
            [row for row, _ in taken],
            claim_id=claim_id,
            provider=sender.provider,
            now=now,
            lease_until=now + timedelta(seconds=self._lane.lease_sec),
        )
        mine = [taken[index] for index in sorted(ours)]
        if len(mine) < len(taken):
            await self._pacer.refund(sender.provider, len(taken) - len(mine), critical=self._critical)
        if mine:
            await self._send(batch, sender, mine, Claim(claim_id, claimed_at + self._lane.lease_sec), places)
        # Somebody else's now, or not to be sent any more: their rows say which.
        await self._look_again(batch, [row.key for index, (row, _) in enumerate(taken) if index not in ours])

    async def _send(
        self,
        batch: _Batch,
        sender: Sender,
        mine: Sequence[tuple[DeliveryRow, Prepared]],
        claim: Claim,
        places: Places,
    ) -> None:
        left = len(mine)
        window = self._window(claim.lease_end)
        async with aclosing(answers(sender, [prepared for _, prepared in mine], window)) as answered:
            async for positions, outcomes in answered:
                left -= len(positions)
                if not left:
                    await places.leave()  # the wire need not wait for our records
                part = [mine[position] for position in positions]
                # Shielded: a drain that runs out may cancel us, but not between the provider's word and our record.
                await asyncio.shield(
                    asyncio.create_task(
                        self._finish(batch, sender.provider, part, outcomes, claim, ends_lease=not left)
                    )
                )

    def _window(self, lease_end: float) -> SendWindow:
        deadline_sec = self._lane.send_deadline_sec
        last_start = lease_end - deadline_sec - RECORD_SEC
        return SendWindow(deadline_sec, lambda: not self._stopping() and time.monotonic() <= last_start)

    # ------------------------------------------------------------ after the send

    async def _finish(
        self,
        batch: _Batch,
        provider: str,
        mine: Sequence[tuple[DeliveryRow, Prepared]],
        outcomes: Sequence[Outcome],
        claim: Claim,
        *,
        ends_lease: bool,
    ) -> None:
        now = self._clock()
        records: list[Record] = []
        for (row, _), outcome in zip(mine, outcomes, strict=True):
            record = plan(row, outcome, lane=self._lane, provider=provider, now=now, jitter=self._jitter())
            records.append(record)
            self._report(row, outcome, record, now)
        results = Counter(record.result for record in records)
        for result, count in results.items():
            OUTCOMES.labels(self._lane.name, provider, result).inc(count)
        changed = await self._record(records, claim, now, ends_lease=ends_lease)
        await self._pacer.refund(provider, results["not_sent"], critical=self._critical)
        drain_sec = max((record.drain_sec for record in records if record.drain_sec is not None), default=0.0)
        if drain_sec:
            await self._pacer.drain(provider, drain_sec, critical=self._critical)
        await self._publish_changes(batch, changed, provider, now)
        if len(changed) < len(records):
            written = {change.record.key for change in changed}
            await self._look_again(batch, [record.key for record in records if record.key not in written])

    async def _record(
        self, records: Sequence[Record], claim: Claim, now: datetime, *, ends_lease: bool
    ) -> Sequence[Changed]:
        """Write outcomes; while the lease lasts, a database that is away is waited for rather than the outcome lost."""
        while True:
            try:
                return await self._store.record(records, claim_id=claim.id, now=now, ends_lease=ends_lease)
            except UNAVAILABLE as error:
                if time.monotonic() >= claim.lease_end:
                    raise
                _log.warning("record_retried", lane=self._lane.name, error_class=type(error).__name__)
                await asyncio.sleep(_RECORD_RETRY_SEC)

    async def _publish_changes(self, batch: _Batch, changed: Sequence[Changed], provider: str, now: datetime) -> None:
        out: list[KafkaRecord] = []
        for change in changed:
            record = change.record
            if change.status is DeliveryStatus.PENDING:
                if record.owed is not None:
                    out.append(self._hint(batch, record.key, record.owed))
            elif change.status in SETTLED:
                out.append(
                    event_record(
                        record.key,
                        status=change.status,
                        reason=change.reason,
                        attempt=record.attempt,
                        provider=provider,
                        at=now,
                    )
                )
            if record.dead_letter:
                self._reject(batch, record.key, record.reason or Reason.PERMANENT, record.last_error or "")
        await self._publisher.publish(out)

    async def _look_again(self, batch: _Batch, keys: Sequence[DeliveryKey]) -> None:
        """Rows that turned out not to be as they were read: what their rows say now is told, nothing is sent."""
        if not keys:
            return
        rows = await self._store.load(keys)
        found = [(key, rows[key]) for key in keys if key in rows]
        hints = [(replace(batch.messages[key][1].value, attempt=row.attempt), row) for key, row in found]
        again = await self._sort(batch, hints)
        await self._publish_hints(batch, [self._after_shortest_tier(row) for row in again])

    # ------------------------------------------------------------ small things

    def _report(self, row: DeliveryRow, outcome: Outcome, record: Record, now: datetime) -> None:
        if record.status is DeliveryStatus.SENT:
            self._latency.observe((now - row.created_at).total_seconds())
        elif isinstance(outcome, Ambiguous) and outcome.unrecognised:
            UNRECOGNISED.labels(record.provider).inc()
            _log.error("outcome_unrecognised", provider=record.provider, detail=outcome.detail)
        elif isinstance(outcome, ProviderDown):
            _log.error("provider_down", provider=record.provider, lane=self._lane.name, detail=outcome.detail)

    def _after_shortest_tier(self, row: DeliveryRow) -> Owed:
        now = self._clock()
        return later(row, self._lane, now + timedelta(seconds=self._lane.tiers[0]), now)

    def _hint(self, batch: _Batch, key: DeliveryKey, owed: Owed) -> KafkaRecord:
        _, message = batch.messages[key]
        return hint_record(owed, self._lane, message.key, message.headers.get(HEADER_TRACEPARENT))

    async def _publish_hints(self, batch: _Batch, owed: Sequence[Owed]) -> None:
        await self._publisher.publish(
            [self._hint(batch, DeliveryKey(o.hint.notification_id, o.hint.channel, o.hint.target_key), o) for o in owed]
        )

    def _reject(self, batch: _Batch, key: DeliveryKey, reason: str, detail: str) -> None:
        batch.rejections.append(Rejection(batch.messages[key][0], reason, detail))


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of it to its end, then the first error: what is on the wire is never left behind by a failure beside it."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _unclaimed(row: DeliveryRow) -> Owed:
    """For whoever reads the lane after this process has ended."""
    return Owed(row.hint(attempt=row.attempt, not_before=None), None)
