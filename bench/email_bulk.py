"""Campaign mails a second, ledger included: against smtp-source where Postfix's tools are, else aiosmtplib alone.

smtp-source composes nothing and keeps no ledger: it is what one connection after the other can carry.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from bench import email_tx
from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.lane import free_port, open_stage, sink
from shared.providers.email.smtp.client import SMTP as RELAY
from shared.providers.email.smtp.settings import SmtpSettings
from shared.wire.channel import DEFAULT_CHANNELS

_PARAGRAPH: Final = "<p>Sepetinizdeki ürünler hafta sonuna kadar sizin için ayrıldı, kargo bizden.</p>\n"
LOAD: Final = replace(
    email_tx.LOAD,
    lane=DEFAULT_CHANNELS.lane("email-bulk"),
    count=10_000,
    content={
        "subject": "Ayşe, sepetiniz sizi bekliyor",
        "text": "Merhaba Ayşe,\nsepetinizdeki ürünler hafta sonuna kadar sizin için ayrıldı.\n" * 5,
        "html": f"<html><body><h1>Merhaba Ayşe</h1>{_PARAGRAPH * 20}</body></html>",
    },
)


async def limit(settings: SmtpSettings) -> Sample:
    source = shutil.which("smtp-source")
    if source is None:
        return await email_tx.limit(settings, LOAD)
    size = sum(map(len, LOAD.content.values()))
    numbers = ("-s", str(settings.concurrency), "-m", str(LOAD.count), "-l", str(size), "-d")
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(source, *numbers, f"{settings.host}:{settings.port}")
    if await process.wait():
        raise WrongResultError("smtp-source failed")
    return Sample(LOAD.count, time.perf_counter() - started)


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    port, count_port = free_port(), free_port()
    settings = SmtpSettings(
        host="127.0.0.1", port=port, security="none", from_address=email_tx.SENDER.from_address, concurrency=20
    )
    async with (
        sink("bench.smtp_sink", str(port), str(count_port), port=count_port) as pid,
        RELAY.open(settings) as sender,
        open_stage(servers, LOAD, quotas={}) as stage,
    ):
        yield Pair(
            lambda: stage.work(sender, lambda: email_tx.counts(count_port)),
            lambda: limit(settings),
            lambda: [pid],
        )


BENCH: Final = Bench(name="email-bulk", unit="mails/s", first=0.3, goal=1.0, open=open_bench)
