"""Mails a second from rows in a table to SENT (Model A), against aiosmtplib alone with the same mails.

One class of one source with the dispatcher's own defaults: claimed twenty at a time, opened, decided, rendered, sent,
recorded and sealed.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import orjson

from bench.email_tx import LOAD, SENDER, counts, limit
from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.lane import free_port, sink
from bench.scratch import RING, scratch_database
from services.relay.email.dispatcher import Dispatcher
from services.relay.email.facts import FactStore
from services.relay.email.preparation import Preparer
from services.relay.email.settings import ModelASettings
from services.relay.email.store import EmailStore, SuppressionStore
from shared.content.render import Renderer
from shared.core.identifier import new_id
from shared.core.ports import Sender
from shared.delivery.mail import MailMaker
from shared.delivery.settings import EmailSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.providers.email.smtp.client import SMTP
from shared.providers.email.smtp.settings import SmtpSettings
from shared.redis_store.pacer import Pacer
from shared.runtime.garbage import collect_rarely
from shared.runtime.keyring import FixedRingSource
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from shared.wire.channel import MessageClass

TYPE: Final = "ORDER_SHIPPED"
PARAMETERS: Final = orjson.dumps({"orderNo": "98213"})


async def fill_catalogue(pool: Pool) -> None:
    """One type whose template comes out as the mails of the limit."""
    await pool.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ($1, 'TRANSACTIONAL', 1, '{EMAIL}', 86400)",
        TYPE,
    )
    parts = {name: text.replace("98213", "{{ orderNo }}") for name, text in LOAD.content.items()}
    await pool.execute(
        "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
        "VALUES ($1, 'EMAIL', 'tr', 1, $2, '{orderNo}', '', true)",
        TYPE,
        parts,
    )


async def add_rows(pool: Pool) -> None:
    """The load as plain SQL writes it: in the clear, due at once."""
    now = datetime.now(UTC)
    await pool.copy_records_to_table(
        "email_messages",
        schema_name="ulak",
        columns=("id", "model", "template", "recipients", "parameters", "next_attempt_at"),
        records=[
            (new_id(), "A", TYPE, orjson.dumps({"to": [LOAD.address(number)]}), PARAMETERS, now)
            for number in range(LOAD.count)
        ],
    )
    await pool.execute("ANALYZE ulak.email_messages")


async def figure(pool: Pool, dispatcher: Dispatcher, arrived: Callable[[], Awaitable[tuple[int, int]]]) -> Sample:
    """All rows, every one SENT, and at the sink exactly once."""
    await add_rows(pool)
    before = await arrived()
    started = time.perf_counter()
    while await dispatcher.round():
        pass
    seconds = time.perf_counter() - started
    sent = await pool.fetchval("SELECT count(*) FROM ulak.email_messages WHERE status = 'SENT'")
    after = await arrived()
    await pool.execute("TRUNCATE ulak.email_messages")
    came = after[0] - before[0], after[1] - before[1]
    if sent != LOAD.count or came != (LOAD.count, LOAD.count):
        raise WrongResultError(f"{sent} sent, {came} arrived (all, different) of {LOAD.count}")
    return Sample(LOAD.count, seconds)


@asynccontextmanager
async def open_dispatcher(pool: Pool, sender: Sender) -> AsyncIterator[Dispatcher]:
    settings, rings, catalogue = ModelASettings(), FixedRingSource(RING), CatalogueCache(pool)
    async with open_storage(StorageSettings()) as storage:
        preparer = Preparer(
            "bench",
            rings=rings,
            facts=FactStore(pool),
            catalogue=catalogue,
            maker=MailMaker(catalogue, Renderer(), storage, rings, default_locale="tr", limits=EmailSettings()),
            backoff=settings.backoff_policy,
            default_locale="tr",
            default_zone="Europe/Istanbul",
        )
        yield Dispatcher(
            "bench",
            EmailStore(pool),
            MessageClass.TX,
            settings,
            preparer=preparer,
            sender=sender,
            pacer=Pacer(None, {}, workers=1, retry_sec=1.0),
            suppressions=SuppressionStore(pool),
            rings=rings,
        )


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    port, count_port = free_port(), free_port()
    smtp = SmtpSettings(host="127.0.0.1", port=port, security="none", from_address=SENDER.from_address)
    with scratch_database(servers.postgres_dsn) as dsn:
        async with (
            sink("bench.smtp_sink", str(port), str(count_port), port=count_port) as pid,
            SMTP.open(smtp) as sender,
            open_pool(PostgresSettings(dsn=dsn), name="bench", size=6) as pool,
            open_dispatcher(pool, sender) as dispatcher,
        ):
            await fill_catalogue(pool)
            collect_rarely()  # as the relay does
            yield Pair(lambda: figure(pool, dispatcher, lambda: counts(count_port)), lambda: limit(smtp), lambda: [pid])


BENCH: Final = Bench(name="model-a", unit="mails/s", first=None, goal=None, open=open_bench)
