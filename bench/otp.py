"""From an accepted code to the SMS provider: idle, then behind a campaign of 100,000 in every step that codes share.

By the direct path and by the relay's. Direct is what callers get: answered by ingest, published by it, sent by the
worker. By the relay: the same rows, committed by the same store, published by nobody, and due in the outbox at once
instead of after two seconds. Figure and limit are the direct medians in seconds; the notes have both paths.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

import httpx

from bench.apart import workers_apart
from bench.backlog import Backlog, backlog
from bench.desk import Desk, desk
from bench.harness import Bench, Pair, Sample, Servers, WrongResultError, until
from ops.dev.status import Kind
from services.ingest.caller import Caller, load_caller
from services.ingest.fast_publish import OUTBOX_DELAY_SEC, FastPublisher
from services.ingest.model import OtpRequest
from services.ingest.otp import RenderedOtp, compose_otp
from services.ingest.otp_store import OtpStore
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import read_ring

CODES: Final = 400
"""Of each path: the 99th percentile then is the fifth largest."""
EVERY_SEC: Final = 0.025
"""Slow enough that each code finds the stack idle, fast enough that nothing has gone to sleep."""
_CONTRACTS: Final = {
    "ULAK_APNS_QUOTA_PER_SECOND": "200",
    "ULAK_FCM_QUOTA_PER_SECOND": "200",
    "ULAK_TWILIO_QUOTA_PER_SECOND": "250",
    "ULAK_TWILIO_QUOTA_RESERVE_PER_SECOND": "150",
}
"""So that the campaign queues with us, and not in the simulator, for whose process two cores are few."""
_WARM_UP: Final = 50
_FIRST_PHONE: Final = 905_320_000_000
_OPEN_CODES: Final = """
SELECT count(*) FROM ulak.deliveries WHERE channel = 'SMS' AND message_class = 0 AND status NOT IN ('SENT', 'DELIVERED')
"""


class Nobody:
    """A publisher that never takes anything, so that all is left to the relay."""

    async def publish(self, records: Sequence[Record]) -> None:
        raise AssertionError(f"{len(records)} records were published past the relay")

    async def try_publish(self, _records: Sequence[Record]) -> bool:
        return False

    def ready(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds, rising."""

    seconds: Sequence[float]

    @property
    def p50(self) -> float:
        return self.seconds[len(self.seconds) // 2]

    @property
    def p99(self) -> float:
        return self.seconds[int(len(self.seconds) * 0.99)]

    def __str__(self) -> str:
        return f"p50 {self.p50 * 1000:.1f} ms, p99 {self.p99 * 1000:.1f} ms"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stack that is up, and both ways into it. Every code goes to a phone of its own."""

    desk: Desk
    ingest: httpx.AsyncClient
    store: OtpStore
    caller: Caller
    ring: KeyRing
    pool: Pool
    phones: Iterator[int] = field(default_factory=lambda: count(_FIRST_PHONE))

    async def directly(self, request: OtpRequest) -> None:
        body = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        reply = await self.ingest.post("/internal/v1/otp-messages", json=body)
        if reply.status_code != 202:
            raise WrongResultError(f"a code was answered with {reply.status_code}: {reply.text}")

    async def by_relay(self, request: OtpRequest) -> None:
        rendered = RenderedOtp(request, request.phone, f"{request.code} kodunuz.", "tr", 1)
        now = datetime.now(UTC)
        await self.store.commit([compose_otp(rendered, self.caller, self.ring, new_id(), new_id(), now, None)])

    async def measure(self, accept: Callable[[OtpRequest], Awaitable[None]], codes: int) -> Latencies:
        """From each acceptance to the provider's receipt of the call; each code must have come exactly once."""
        since = (await self.desk.calls()).seq
        accepted: dict[str, datetime] = {}
        for _ in range(codes):
            request = _request(f"+{next(self.phones)}")
            await accept(request)
            accepted[request.phone] = datetime.now(UTC)
            await asyncio.sleep(EVERY_SEC)
        await until(self._all_sent, timeout_sec=120, what="every code's sending")
        calls = [call for call in await self.desk.arrivals(since, "twilio") if call["to"] in accepted]
        if sorted(call["to"] for call in calls) != sorted(accepted):
            raise WrongResultError(f"{codes} codes made {len(calls)} calls, or some went to other phones")
        return Latencies(
            sorted(
                (datetime.fromisoformat(call["receivedAt"]) - accepted[call["to"]]).total_seconds() for call in calls
            )
        )

    async def _all_sent(self) -> bool:
        return not await self.pool.fetchval(_OPEN_CODES)

    async def both(self) -> tuple[Latencies, Latencies]:
        """Direct, and by the relay."""
        return await self.measure(self.directly, CODES), await self.measure(self.by_relay, CODES)


@dataclass(slots=True)
class Run:
    """Idle first, then the same stack with its campaign."""

    stage: Stage
    filled: Callable[[], AbstractAsyncContextManager[Backlog]]
    idle: tuple[Latencies, Latencies] | None = None

    async def limit(self) -> Sample:
        begun = time.perf_counter()
        self.idle = direct, _ = await self.stage.both()
        return Sample(0, time.perf_counter() - begun, value=direct.p50)

    async def figure(self) -> Sample:
        begun, idle = time.perf_counter(), self.idle
        if idle is None:
            raise WrongResultError("nothing to compare with")
        async with self.filled() as campaign:
            before = await campaign.levels()
            before.require()
            loaded = await self.stage.both()
            after = await campaign.levels()
            after.require()
        told = [
            f"{path}: idle {at_rest}, behind the campaign {behind} "
            f"({behind.p50 / at_rest.p50:.1f} and {behind.p99 / at_rest.p99:.1f} times)"
            for path, at_rest, behind in zip(("direct", "by the relay"), idle, loaded, strict=True)
        ]
        waited = f"waiting at the begin: {before}; at the end: {after}"
        note = f"{CODES} codes each, from acceptance; {'; '.join(told)}; {waited}"
        # At this pace the codes' own CPU is nothing beside the campaign's.
        return Sample(0, time.perf_counter() - begun, value=loaded[0].p50, note=note)


def _request(phone: str) -> OtpRequest:
    return OtpRequest.model_validate(
        {"requestId": str(new_id()), "phone": phone, "code": "482913", "expiresInSeconds": 180}
    )


def _due_at_once() -> datetime:
    """The store's clock: its outbox rows are the relay's two seconds after what this says."""
    return datetime.now(UTC) - timedelta(seconds=OUTBOX_DELAY_SEC)


@asynccontextmanager
async def open_stage(_servers: Servers) -> AsyncIterator[Pair]:
    async with desk(_CONTRACTS) as stack:
        await stack.up()
        settings, ring = stack.settings, read_ring(stack.paths.key_ring)
        kafka = KafkaSettings(bootstrap_servers=settings["ULAK_KAFKA_BOOTSTRAP_SERVERS"])
        async with (
            open_pool(PostgresSettings(dsn=settings["ULAK_POSTGRES_DSN"]), name="bench", size=4) as pool,
            stack.client("ULAK_OTP_URL") as ingest,
            stack.client("ULAK_INGEST_URL") as imports,
            Producer.open(kafka, name="bench") as producer,
        ):
            caller = await load_caller(pool)(hashlib.sha256(settings["ULAK_API_KEY"].encode()).digest())
            if caller is None:
                raise WrongResultError("the stack's own API key is not in its database")
            store = OtpStore(pool, FastPublisher(Nobody(), pool), clock=_due_at_once)
            stage = Stage(stack, ingest, store, caller, ring, pool)
            async with workers_apart(stack) as own:
                for accept in (stage.directly, stage.by_relay):
                    await stage.measure(accept, _WARM_UP)
                run = Run(stage, lambda: backlog(pool, producer, ring, imports))
                yield Pair(run.figure, run.limit, lambda: [*stack.pids(*Kind).values(), *own])


BENCH: Final = Bench(name="otp", unit="s (p50)", first=3.0, goal=1.5, open=open_stage, smaller_is_better=True, pairs=1)
