"""SMS a second, ledger and quota included, against the transport alone posting the same forms to the same sink.

At most once: no more is claimed than goes on the wire at once, so claims are small. 200 on the wire, both ways: what
500/s at some 200 ms, and a burst, need.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import httpx
from pydantic import SecretStr

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.lane import Load, free_port, open_stage, prepared, sink
from shared.core.ports import Transport
from shared.providers.sms.twilio.client import TWILIO, form
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.providers.transport import open_transport
from shared.redis_store.token_bucket import Quota
from shared.wire.channel import DEFAULT_CHANNELS

LOAD: Final = Load(
    lane=DEFAULT_CHANNELS.lane("sms-bulk"),
    count=20_000,  # fewer are over within a second, most of it start and tail
    address=lambda number: f"+90532{number:07d}",
    content={"text": "98213 numaralı siparişiniz yola çıktı."},
)
UNBOUNDED: Final = Quota("twilio", 1_000_000.0, 1.0)
"""The bucket is asked, but never the bottleneck."""


async def counts(url: str) -> tuple[int, int]:
    async with httpx.AsyncClient(trust_env=False) as client:
        found = (await client.get(f"{url}/count")).json()
    return found["requests"], found["distinct"]


async def limit(transport: Transport, settings: TwilioSettings) -> Sample:
    now = datetime.now(UTC)
    bodies = iter([form(message, settings, now).encode() for message in prepared(LOAD)])
    headers = {"content-type": "application/x-www-form-urlencoded", "authorization": "Basic x"}
    url = f"{settings.base_url}/2010-04-01/Accounts/{settings.account_sid}/Messages.json"
    refused: list[int] = []

    async def post() -> None:
        for body in bodies:
            reply = await transport.post(url, headers, body, timeout_sec=20.0)
            if reply.status != 201:
                refused.append(reply.status)

    started = time.perf_counter()
    await asyncio.gather(*(post() for _ in range(settings.concurrency)))
    seconds = time.perf_counter() - started
    if refused:
        raise WrongResultError(f"{len(refused)} refused")
    return Sample(LOAD.count, seconds)


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    port = free_port()
    settings = TwilioSettings(
        account_sid="AC" + "0" * 32,
        auth_token=SecretStr("token"),
        from_number="+12025550123",
        base_url=f"http://127.0.0.1:{port}",
        public_callback_url="http://127.0.0.1:9",
        concurrency=200,
    )
    async with (
        sink("bench.http1_sink", str(port), port=port) as pid,
        open_transport(http2=False) as transport,
        TWILIO.open(settings) as sender,
        open_stage(servers, LOAD, quotas={"twilio": UNBOUNDED}) as stage,
    ):
        yield Pair(
            lambda: stage.work(sender, lambda: counts(settings.base_url)),
            lambda: limit(transport, settings),
            lambda: [pid],
        )


BENCH: Final = Bench(name="sms", unit="sends/s", first=0.5, goal=0.8, open=open_bench)
