"""Two databases: a shop's, with the producer schema alone, and Ulak's own, with the catalogue of `world`."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from services.relay.intake.intake import ApplicationDirectory, EmailIntake
from services.relay.intake.write_back import WriteBack
from services.relay.source import Source
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import SourceSpec
from shared.runtime.keyring import FixedRingSource, RingSource
from shared.wire.channel import MessageClass
from tests.integration.ledger.world import add_catalogue, ledger


@dataclass(frozen=True)
class Shop:
    """The service's side: its database, and how it enqueues."""

    pool: Pool

    async def enqueue(self, *to: str, template: str = "INVOICE_READY", model: str = "B", **options: Any) -> UUID:
        """By plain SQL. options: further arguments of `ulak.enqueue_email`."""
        named = {"template": template, "parameters": {"number": "R-7", "name": "Ada"}, "model": model} | options
        places = ", ".join(f"{name} => ${number}" for number, name in enumerate(named, start=2))
        id_: UUID = await self.pool.fetchval(
            f"SELECT ulak.enqueue_email(recipients => $1, {places})", list(to or ("ada@example.com",)), *named.values()
        )
        return id_

    async def row(self, id_: UUID) -> asyncpg.Record:
        row = await self.pool.fetchrow("SELECT * FROM ulak.email_messages WHERE id = $1", id_)
        assert row is not None
        return row


@pytest.fixture
async def shop(foreign_pool: Pool) -> Shop:
    return Shop(foreign_pool)


@pytest.fixture
async def own(pool: Pool) -> Pool:
    await add_catalogue(pool)
    return pool


@pytest.fixture
async def source(foreign_database: str, shop: Shop) -> AsyncIterator[Source]:
    async with open_pool(PostgresSettings(dsn=foreign_database), name="relay", size=4) as pool:
        yield Source(SourceSpec("shop", foreign_database, "webshop"), pool, pool)


MakeIntake = Callable[..., EmailIntake]


@pytest.fixture
def make_intake(own: Pool, source: Source, key_ring: KeyRing) -> MakeIntake:
    """An intake of one class (tx) of the shop's rows."""

    def make(
        *, rings: RingSource | None = None, message_class: MessageClass = MessageClass.TX, batch: int = 10
    ) -> EmailIntake:
        return EmailIntake(
            source,
            message_class,
            applications=ApplicationDirectory(own),
            ledger=ledger(own, key_ring),
            rings=rings or FixedRingSource(key_ring),
            batch=batch,
            key_wait_sec=30.0,
            clock=lambda: datetime.now(UTC),
        )

    return make


@pytest.fixture
def write_back(own: Pool, source: Source, key_ring: KeyRing) -> WriteBack:
    return WriteBack(own, source, FixedRingSource(key_ring), page=100, clock=lambda: datetime.now(UTC))
