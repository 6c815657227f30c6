"""From an accepted code to the SMS provider, idle: by the direct path, and by the relay's when that was not taken.

Direct is what callers get: answered by ingest, published by it, sent by the worker. By the relay: the same rows,
committed by the same store, published by nobody, and due in the outbox at once instead of after two seconds.
The figure is the direct median in seconds; the note has both paths.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

import httpx

from bench.desk import Desk, desk
from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.traffic import settled
from ops.dev.status import Kind
from services.ingest.caller import Caller, load_caller
from services.ingest.fast_publish import OUTBOX_DELAY_SEC, FastPublisher
from services.ingest.model import OtpRequest
from services.ingest.otp import RenderedOtp, compose_otp
from services.ingest.otp_store import OtpStore
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.kafka.record import Record
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import read_ring

CODES: Final = 400
"""Of each path: the 99th percentile then is the fifth largest."""
EVERY_SEC: Final = 0.025
"""Slow enough that each code finds the stack idle, fast enough that nothing has gone to sleep."""
_WARM_UP: Final = 50
_FIRST_PHONE: Final = 905_320_000_000


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
        before = await self.desk.calls()
        accepted: dict[str, datetime] = {}
        for _ in range(codes):
            request = _request(f"+{next(self.phones)}")
            await accept(request)
            accepted[request.phone] = datetime.now(UTC)
            await asyncio.sleep(EVERY_SEC)
        await settled(self.desk, before.accepted + codes)
        calls = await self.desk.arrivals(before.seq, "twilio")
        if sorted(call["to"] for call in calls) != sorted(accepted):
            raise WrongResultError(f"{codes} codes made {len(calls)} calls, or some went to other phones")
        return Latencies(
            sorted(
                (datetime.fromisoformat(call["receivedAt"]) - accepted[call["to"]]).total_seconds() for call in calls
            )
        )


async def figure(stage: Stage) -> Sample:
    begun = time.perf_counter()
    direct = await stage.measure(stage.directly, CODES)
    relayed = await stage.measure(stage.by_relay, CODES)
    note = f"idle, {CODES} codes each, from acceptance: direct {direct}; by the relay {relayed}"
    # At this pace the stack's CPU is that of waiting: per code it would say nothing.
    return Sample(0, time.perf_counter() - begun, value=direct.p50, note=note)


def _request(phone: str) -> OtpRequest:
    return OtpRequest.model_validate(
        {"requestId": str(new_id()), "phone": phone, "code": "482913", "expiresInSeconds": 180}
    )


def _due_at_once() -> datetime:
    """The store's clock: its outbox rows are the relay's two seconds after what this says."""
    return datetime.now(UTC) - timedelta(seconds=OUTBOX_DELAY_SEC)


@asynccontextmanager
async def open_stage(_servers: Servers) -> AsyncIterator[Pair]:
    async with desk() as stack:
        await stack.up()
        settings = stack.settings
        async with (
            open_pool(PostgresSettings(dsn=settings["ULAK_POSTGRES_DSN"]), name="bench", size=2) as pool,
            stack.client("ULAK_OTP_URL") as ingest,
        ):
            caller = await load_caller(pool)(hashlib.sha256(settings["ULAK_API_KEY"].encode()).digest())
            if caller is None:
                raise WrongResultError("the stack's own API key is not in its database")
            stage = Stage(
                stack,
                ingest,
                OtpStore(pool, FastPublisher(Nobody(), pool), clock=_due_at_once),
                caller,
                read_ring(stack.paths.key_ring),
            )
            for accept in (stage.directly, stage.by_relay):
                await stage.measure(accept, _WARM_UP)
            yield Pair(lambda: figure(stage), None, lambda: list(stack.pids(*Kind).values()))


BENCH: Final = Bench(
    name="otp", unit="s (p50)", first=None, goal=None, open=open_stage, smaller_is_better=True, pairs=1
)
