"""Mails a second, ledger included, against aiosmtplib alone with the same mails and as many connections.

"Alone" is what aiosmtplib's users have: the mail is an EmailMessage. (Ours are composed otherwise: docs/adr/0006.)
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from bench.harness import Bench, Pair, Sample, Servers
from bench.lane import Load, free_port, open_stage, prepared, sink
from shared.core.ports import Prepared, SenderProfile
from shared.providers.email.smtp.client import SMTP as RELAY
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
SENDER: Final = SenderProfile("no-reply@shop.example", "Shop")


async def counts(port: int) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    every, distinct = (int(part) for part in (await reader.read()).split())
    writer.close()
    return every, distinct


def as_anybody_builds_it(message: Prepared) -> EmailMessage:
    mail = EmailMessage(policy=SMTP)
    mail["From"] = Address(SENDER.from_name, addr_spec=SENDER.from_address)
    mail["To"] = message.address
    mail["Subject"] = message.content["subject"]
    mail["Date"] = format_datetime(datetime.now(UTC))
    mail["Message-ID"] = f"<{message.key.reference}@{SENDER.from_address.partition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.content["text"])
    mail.add_alternative(message.content["html"], subtype="html")
    return mail


async def limit(settings: SmtpSettings, load: Load = LOAD) -> Sample:
    messages = iter(prepared(load))

    async def connection() -> None:
        client = aiosmtplib.SMTP(hostname=settings.host, port=settings.port, start_tls=False)
        async with client:
            for message in messages:
                await client.send_message(as_anybody_builds_it(message))

    started = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(settings.concurrency)))
    return Sample(load.count, time.perf_counter() - started)


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    port, count_port = free_port(), free_port()
    settings = SmtpSettings(host="127.0.0.1", port=port, security="none", from_address=SENDER.from_address)
    async with (
        sink("bench.smtp_sink", str(port), str(count_port), port=count_port) as pid,
        RELAY.open(settings) as sender,
        open_stage(servers, LOAD, quotas={}) as stage,
    ):
        yield Pair(
            lambda: stage.work(sender, lambda: counts(count_port)),
            lambda: limit(settings),
            lambda: [pid],
        )


BENCH: Final = Bench(name="email-tx", unit="mails/s", first=0.7, goal=0.9, open=open_bench)
