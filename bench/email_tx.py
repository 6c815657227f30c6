"""Mails a second, ledger included, against aiosmtplib alone with the same mails and as many connections."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import aiosmtplib

from bench.harness import Bench, Pair, Sample, Servers
from bench.lane import Load, free_port, open_stage, prepared, sink
from shared.providers.email.smtp.client import SMTP
from shared.providers.email.smtp.mime import build
from shared.providers.email.smtp.settings import SmtpSettings
from shared.wire.channel import DEFAULT_CHANNELS

LOAD: Final = Load(
    lane=DEFAULT_CHANNELS.lane("email-tx"),
    count=3_000,
    address=lambda number: f"user{number}@example.com",
    content={
        "subject": "Siparişiniz kargoda",
        "text": "Merhaba,\n98213 numaralı siparişiniz yola çıktı.\n" * 5,
        "html": "<html><body><p>98213 numaralı siparişiniz yola çıktı.</p></body></html>",
    },
)
FROM: Final = "no-reply@shop.example"


async def counts(port: int) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    every, distinct = (int(part) for part in (await reader.read()).split())
    writer.close()
    return every, distinct


async def limit(settings: SmtpSettings) -> Sample:
    messages = iter(prepared(LOAD))

    async def connection() -> None:
        client = aiosmtplib.SMTP(hostname=settings.host, port=settings.port, start_tls=False)
        async with client:
            for message in messages:
                mail = build(message, from_address=FROM, from_name="Shop", now=datetime.now(UTC))
                await client.sendmail(mail.sender, [mail.recipient], mail.content)

    started = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(settings.concurrency)))
    return Sample(LOAD.count, time.perf_counter() - started)


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    port, count_port = free_port(), free_port()
    settings = SmtpSettings(host="127.0.0.1", port=port, security="none", from_address=FROM, from_name="Shop")
    async with (
        sink("bench.smtp_sink", str(port), str(count_port), port=count_port) as pid,
        SMTP.open(settings) as sender,
        open_stage(servers, LOAD, quotas={}) as stage,
    ):
        yield Pair(
            lambda: stage.work(sender, lambda: counts(count_port)),
            lambda: limit(settings),
            lambda: [pid],
        )


BENCH: Final = Bench(name="email-tx", unit="mails/s", first=0.7, goal=0.9, open=open_bench)
