"""One provider's share of a batch: places on the wire, tokens, claim, send, record, publish (semantics.md, 3)."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from shared.core.control import Controls
from shared.core.identifier import new_id
from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason
from shared.core.outcome import Ambiguous, Outcome, ProviderDown
from shared.core.ports import Prepared, Sender
from shared.delivery.attempt import record_while_leased, send_claimed, window
from shared.delivery.batch import Batch
from shared.delivery.consent import ConsentCheck
from shared.delivery.consequence import Changed
from shared.delivery.envelope import bounds, parts
from shared.delivery.message import event_record
from shared.delivery.pause import Pauses
from shared.delivery.plan import Record, plan
from shared.delivery.route import Routes
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.sorting import Sorting
from shared.delivery.store import DeliveryStore, Settled
from shared.delivery.wire import Claim, Places, Wire
from shared.kafka.record import Publisher
from shared.kafka.record import Record as KafkaRecord
from shared.providers.simulated import NAME as SIMULATED
from shared.redis_store.pacer import Pacer
from shared.runtime.metrics import OUTCOMES, PROVIDER_MISSING, SEND_LATENCY, UNRECOGNISED
from shared.wire.channel import Lane, MessageClass

_log = structlog.get_logger(__name__)

PATIENCE_SEC: Final = 2.0
"""A longer wait for tokens goes to a retry tier, so that one drained provider does not hold the others' partition."""
_CLAIMS_AT_ONCE: Final = 2
"""Parts of one batch in flight together, so that the wire does not wait for the database."""
_WIRES_CLAIMED: Final = 2
"""What may be claimed, in wires full: one being sent, one made ready meanwhile. One claim is never more than one."""


class _Way(NamedTuple):
    """To whom a group goes, and what that one's breaker went through when it was chosen."""

    sender: Sender
    phase: int


class Dispatch:
    """Hands a lane's deliveries to its senders and records what they say. Safe for several batches at once."""

    def __init__(
        self,
        lane: Lane,
        *,
        store: DeliveryStore,
        consents: ConsentCheck,
        senders: Mapping[str, Sender],
        sorting: Sorting,
        routes: Routes,
        pauses: Pauses,
        pacer: Pacer,
        publisher: Publisher,
        stopping: Callable[[], bool],
        clock: Callable[[], datetime],
        jitter: Callable[[], float],
    ) -> None:
        """Senders by provider name; stopping: True once the process was told to end; jitter: from [0, 1)."""
        self._lane = lane
        self._critical = lane.message_class is MessageClass.CRITICAL
        self._latency = SEND_LATENCY.labels(lane.name)
        self._store = store
        self._consents = consents
        self._senders = senders
        self._wires = {name: Wire(_WIRES_CLAIMED * sender.concurrency) for name, sender in senders.items()}
        self._sorting = sorting
        self._routes = routes
        self._pauses = pauses
        self._pacer = pacer
        self._publisher = publisher
        self._stopping = stopping
        self._clock = clock
        self._jitter = jitter

    async def hand_over(
        self, batch: Batch, provider: str, group: Sequence[tuple[DeliveryRow, Prepared]], controls: Controls
    ) -> None:
        """Send what may be sent now; the rest waits in a tier, is settled or given back. All of it is recorded.

        controls: those that let the group through.
        """
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
            await self._sorting.publish_hints(batch, [self._sorting.after_shortest_tier(row) for row, _ in group])
            return
        share = max(1, self._lane.poll_batch // _CLAIMS_AT_ONCE)
        way = _Way(sender, self._routes.phase(provider))
        await together(
            self._send_share(batch, way, group[start:end], controls)
            for start, end in parts([prepared for _, prepared in group], share)
        )

    async def _send_share(
        self, batch: Batch, way: _Way, group: Sequence[tuple[DeliveryRow, Prepared]], controls: Controls
    ) -> None:
        """Places and tokens are taken by the message, however many recipients it has.

        What is left when the provider's breaker opens goes back, to be chosen for anew.
        """
        sender = way.sender
        wire = self._wires[sender.provider]
        ends = bounds([prepared for _, prepared in group])
        done, messages = 0, len(ends) - 1
        while done < messages:
            pending = group[ends[done] :]
            if self._stopping() or self._routes.stops(sender.provider, way.phase):
                await self._sorting.publish_hints(batch, [_unclaimed(row) for row, _ in pending])
                return
            places = await wire.take(min(messages - done, sender.concurrency))
            try:
                granted = await self._tokens(sender.provider, places.count)
                if not granted:
                    await self._sorting.publish_hints(
                        batch, [self._sorting.after_shortest_tier(row) for row, _ in pending]
                    )
                    return
                await self._claim_and_send(batch, way, group[ends[done] : ends[done + granted]], places, controls)
                done += granted
            finally:
                await places.leave()

    async def _tokens(self, provider: str, wanted: int) -> int:
        if provider == SIMULATED:
            return wanted
        return await self._pacer.take(provider, wanted, critical=self._critical, patience_sec=PATIENCE_SEC)

    async def _claim_and_send(
        self,
        batch: Batch,
        way: _Way,
        taken: Sequence[tuple[DeliveryRow, Prepared]],
        places: Places,
        controls: Controls,
    ) -> None:
        sender = way.sender
        taken = await self._still_wanted(batch, sender, taken)
        claimed = await self._claim(batch, sender, taken, controls)
        if claimed is None:
            return
        claim, taken, ours = claimed
        mine = [taken[index] for index in sorted(ours)]
        if len(mine) < len(taken):
            unused = batch.count([row.key for row, _ in taken]) - batch.count([row.key for row, _ in mine])
            await self._pacer.refund(sender.provider, unused, critical=self._critical)
        if mine:
            await self._send(batch, way, mine, claim, places)
        # Somebody else's now, or not to be sent any more: their rows say which.
        await self._sorting.look_again(batch, [row.key for index, (row, _) in enumerate(taken) if index not in ours])

    async def _claim(
        self,
        batch: Batch,
        sender: Sender,
        taken: Sequence[tuple[DeliveryRow, Prepared]],
        controls: Controls,
    ) -> tuple[Claim, Sequence[tuple[DeliveryRow, Prepared]], frozenset[int]] | None:
        """What was claimed, of which entries, and which of these are ours; None where pauses let none through.

        Done again only where operators have changed what they say since the batch began.
        """
        while taken:
            claim_id, now, claimed_at = new_id(), self._clock(), time.monotonic()
            ours = await self._store.claim(
                [row for row, _ in taken],
                claim_id=claim_id,
                provider=sender.provider,
                now=now,
                lease_until=now + timedelta(seconds=self._lane.lease_sec),
                revision=controls.revision,
            )
            if ours is not None:
                return Claim(claim_id, claimed_at + self._lane.lease_sec), taken, ours
            controls = await self._pauses.newer(controls)
            taken = await self._let_through(batch, sender, taken, controls)
        return None

    async def _still_wanted(
        self, batch: Batch, sender: Sender, taken: Sequence[tuple[DeliveryRow, Prepared]]
    ) -> Sequence[tuple[DeliveryRow, Prepared]]:
        """Without the marketing whose consent was withdrawn, or target suppressed, before this moment (C5).

        After the wait for tokens, which may have been long; what it leaves out is SKIPPED, and its tokens go back.
        """
        refused = await self._consents.refused([row for row, _ in taken])
        if not refused:
            return taken
        left = [entry for position, entry in enumerate(taken) if position not in refused]
        unused = batch.count([row.key for row, _ in taken]) - batch.count([row.key for row, _ in left])
        await self._pacer.refund(sender.provider, unused, critical=self._critical)
        await self._sorting.settle(
            batch,
            [Settled(taken[position][0], DeliveryStatus.SKIPPED, reason) for position, reason in refused.items()],
        )
        return left

    async def _let_through(
        self, batch: Batch, sender: Sender, taken: Sequence[tuple[DeliveryRow, Prepared]], controls: Controls
    ) -> Sequence[tuple[DeliveryRow, Prepared]]:
        """Without what a pause holds that came since the batch began; the tokens of that go back."""
        rows = [row for row, _ in taken]
        through = {row.key for row in await self._pauses.let_through_to(batch, sender.provider, rows, controls)}
        if len(through) == len(taken):
            return taken
        left = [entry for entry in taken if entry[0].key in through]
        unused = batch.count([row.key for row in rows]) - batch.count([row.key for row, _ in left])
        await self._pacer.refund(sender.provider, unused, critical=self._critical)
        return left

    async def _send(
        self,
        batch: Batch,
        way: _Way,
        mine: Sequence[tuple[DeliveryRow, Prepared]],
        claim: Claim,
        places: Places,
    ) -> None:
        provider, started = way.sender.provider, time.monotonic()

        async def finish(rows: Sequence[DeliveryRow], outcomes: Sequence[Outcome], ends_lease: bool) -> None:
            took_sec = time.monotonic() - started
            await self._finish(batch, provider, rows, outcomes, claim, ends_lease=ends_lease)
            await self._routes.report(provider, way.phase, outcomes, took_sec)

        def stopping() -> bool:
            return self._stopping() or self._pauses.stops(provider) or self._routes.stops(provider, way.phase)

        in_time = window(claim.lease_end, self._lane.send_deadline_sec, stopping)
        await send_claimed(way.sender, mine, in_time, finish=finish, sent=places.leave)

    # ------------------------------------------------------------ after the send

    async def _finish(
        self,
        batch: Batch,
        provider: str,
        rows: Sequence[DeliveryRow],
        outcomes: Sequence[Outcome],
        claim: Claim,
        *,
        ends_lease: bool,
    ) -> None:
        now = self._clock()
        records: list[Record] = []
        jitter, of_message = 0.0, None
        for row, outcome in zip(rows, outcomes, strict=True):
            if row.key.notification_id != of_message:  # recipients of one message are due again together
                jitter, of_message = self._jitter(), row.key.notification_id
            record = plan(row, outcome, lane=self._lane, provider=provider, now=now, jitter=jitter)
            records.append(record)
            self._report(row, outcome, record, now)
        results = Counter(record.result for record in records)
        for result, count in results.items():
            OUTCOMES.labels(self._lane.name, provider, result).inc(count)
        changed = await record_while_leased(
            lambda: self._store.record(
                records,
                claim_id=claim.id,
                now=now,
                ends_lease=ends_lease,
                requests=batch.requests,
                routes=batch.route_notes,
            ),
            claim.lease_end,
        )
        if results["not_sent"]:
            unused = batch.count([record.key for record in records if record.result == "not_sent"])
            await self._pacer.refund(provider, unused, critical=self._critical)
        drain_sec = max((record.drain_sec for record in records if record.drain_sec is not None), default=0.0)
        if drain_sec:
            await self._pacer.drain(provider, drain_sec, critical=self._critical)
        await self._publish_changes(batch, changed, provider, now)
        if len(changed) < len(records):
            written = {change.record.key for change in changed}
            await self._sorting.look_again(batch, [record.key for record in records if record.key not in written])

    async def _publish_changes(self, batch: Batch, changed: Sequence[Changed], provider: str, now: datetime) -> None:
        out: list[KafkaRecord] = []
        for change in changed:
            record = change.record
            if change.status is DeliveryStatus.PENDING:
                if record.owed is not None:
                    out += batch.hints((record.owed,))
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
                batch.reject(record.key, record.reason or Reason.PERMANENT, record.last_error or "")
        await self._publisher.publish(out)

    def _report(self, row: DeliveryRow, outcome: Outcome, record: Record, now: datetime) -> None:
        if record.status is DeliveryStatus.SENT:
            self._latency.observe((now - row.created_at).total_seconds())
        elif isinstance(outcome, Ambiguous) and outcome.unrecognised:
            UNRECOGNISED.labels(record.provider).inc()
            _log.error("outcome_unrecognised", provider=record.provider, detail=outcome.detail)
        elif isinstance(outcome, ProviderDown):
            _log.error("provider_down", provider=record.provider, lane=self._lane.name, detail=outcome.detail)


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of it to its end, then the first error: what is on the wire is never left behind by a failure beside it."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _unclaimed(row: DeliveryRow) -> Owed:
    """For whoever reads the lane after this process has ended."""
    return Owed(row.hint(attempt=row.attempt, not_before=None), None)
