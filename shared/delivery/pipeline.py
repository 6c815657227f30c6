"""A batch of hints through a lane: load, triage, prepare, tokens, claim, send, record, publish (semantics.md, 3).

The decisions are in triage.py, prepare.py and plan.py; this file only keeps their order, sorting.py deals with what is
not sent, dispatch.py with what is. A batch may come again, wholly or in part, after a crash at any line: what is then
found done is told again, and nothing is sent twice that a row does not allow to be.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

import structlog

from shared.core.control import Controls
from shared.core.lifecycle import DeliveryStatus
from shared.core.ports import Prepared, Sender
from shared.delivery.batch import Batch
from shared.delivery.consent import ConsentCheck
from shared.delivery.dispatch import Dispatch, together
from shared.delivery.hours import AllowedHours
from shared.delivery.opening import Preparation
from shared.delivery.pause import Pauses
from shared.delivery.route import Held, Routes, To, Wait
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.sorting import Sorting
from shared.delivery.store import DeliveryStore, Settled, in_key_order
from shared.kafka.record import Publisher, Received, Rejection
from shared.providers.simulated import NAME as SIMULATED
from shared.redis_store.pacer import Pacer
from shared.runtime.metrics import ROUTED_AROUND
from shared.wire.channel import Lane
from shared.wire.message import DeliveryHint

_log = structlog.get_logger(__name__)


class Pipeline:
    """The `Handler` of one lane, for its topic and all its retry tiers. Safe for several batches at once."""

    def __init__(
        self,
        lane: Lane,
        *,
        store: DeliveryStore,
        consents: ConsentCheck,
        senders: Mapping[str, Sender],
        routes: Routes,
        prepare: Preparation,
        hours: AllowedHours,
        pauses: Pauses,
        pacer: Pacer,
        publisher: Publisher,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Senders by provider name, the simulated one among them; stopping: True once the process was told to end."""
        self._lane = lane
        self._store = store
        self._routes = routes
        self._prepare_rows = prepare
        self._pauses = pauses
        self._publisher = publisher
        self._clock = clock
        self._sorting = Sorting(lane, store=store, hours=hours, publisher=publisher, clock=clock)
        self._dispatch = Dispatch(
            lane,
            store=store,
            consents=consents,
            senders=senders,
            sorting=self._sorting,
            routes=routes,
            pauses=pauses,
            pacer=pacer,
            publisher=publisher,
            stopping=stopping,
            clock=clock,
            jitter=jitter,
        )

    async def __call__(self, received: Sequence[Received[DeliveryHint]]) -> Sequence[Rejection]:
        """Work on one poll's hints. Returns when every effect is committed and published; then offsets may move."""
        batch = Batch(received, self._lane)
        controls = self._pauses.controls
        rows = await self._store.load(batch.keys)
        attempts = await self._sorting.sort(batch, batch.steps(rows, self._clock()))
        wanted = await self._pauses.let_through(batch, in_key_order(attempts, lambda row: row.key), controls)
        ready = await self._prepare(batch, wanted)
        groups = await self._routed(batch, ready, controls)
        await together(self._dispatch.hand_over(batch, name, group, controls) for name, group in groups.items())
        await self._publisher.publish(batch.left())
        return batch.rejections

    async def _routed(
        self, batch: Batch, ready: Sequence[tuple[DeliveryRow, Prepared]], controls: Controls
    ) -> Mapping[str, list[tuple[DeliveryRow, Prepared]]]:
        """By provider; what none takes now waits, for a breaker or for the end of a pause."""
        groups: dict[str, list[tuple[DeliveryRow, Prepared]]] = defaultdict(list)
        if not ready:
            return groups
        held: list[tuple[DeliveryRow, UUID]] = []
        waits: list[tuple[DeliveryRow, Wait]] = []
        standing, now = await self._routes.look(len(ready), controls), self._clock()
        for row, prepared in ready:
            choice = To(SIMULATED, None) if row.mode == "test" else standing.choose(row, now, prepared.address)
            match choice:
                case To(provider, note):
                    groups[provider].append((row, prepared))
                    if note is not None:
                        batch.route_notes[row.key] = note
                        ROUTED_AROUND.labels(self._lane.name, provider).inc()
                case Wait():
                    waits.append((row, choice))
                case Held(pause_id):
                    held.append((row, pause_id))
        await self._pauses.hold(batch, held)
        await self._sorting.wait_for_provider(batch, waits)
        return groups

    async def _prepare(self, batch: Batch, rows: Sequence[DeliveryRow]) -> list[tuple[DeliveryRow, Prepared]]:
        """Open address and content of each; what cannot be opened waits for its key or is settled."""
        ready: list[tuple[DeliveryRow, Prepared]] = []
        settled: list[Settled] = []
        waits: list[Owed] = []
        for row, result in zip(rows, await self._prepare_rows(rows) if rows else (), strict=True):
            if isinstance(result, Prepared):
                ready.append((row, result))
            elif result.status is DeliveryStatus.PENDING:
                _log.error("key_unknown", reference=row.key.reference, detail=result.detail)
                waits.append(self._sorting.after_shortest_tier(row))
            else:
                failed = result.status is DeliveryStatus.FAILED
                settled.append(Settled(row, result.status, result.reason, result.detail, dead_letter=failed))
        await self._sorting.settle(batch, settled)
        await self._sorting.publish_hints(batch, waits)
        return ready
