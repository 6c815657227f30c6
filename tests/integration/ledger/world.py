"""A catalogue, requests and what the ledger holds of them, for the tests of durable e-mail."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from shared.core.email import EmailRequest, parse_recipients
from shared.core.identifier import EMAIL, new_id, public_id
from shared.core.sealing import KeyRing
from shared.ledger.ask import EmailAsk, email_fingerprint
from shared.ledger.ledger import EmailLedger
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource

TYPES = (
    ("INVOICE_READY", "TRANSACTIONAL", 1, 86_400),
    ("PASSWORD_RESET", "SECURITY", 0, 3_600),
    ("WINTER_SALE", "MARKETING", 2, 86_400),
    ("BARE", "TRANSACTIONAL", 1, 86_400),
)
PARTS = {"subject": "Invoice {{ number }}", "text": "Dear {{ name }}, here it is."}


async def add_catalogue(pool: Pool) -> None:
    """Four types; all but BARE have an e-mail template in English that takes number and name."""
    for name, category, message_class, ttl in TYPES:
        await pool.execute(
            "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
            "VALUES ($1, $2, $3, '{EMAIL}', $4)",
            name,
            category,
            message_class,
            ttl,
        )
        if name != "BARE":
            await add_template(pool, name)


async def add_template(pool: Pool, name: str) -> None:
    await pool.execute(
        "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
        "VALUES ($1, 'EMAIL', 'en', 1, $2, '{number,name}', $3, true)",
        name,
        PARTS,
        hashlib.sha256(name.encode()).digest(),
    )


async def add_application(pool: Pool, name: str = "shop") -> int:
    found: int = await pool.fetchval(
        "INSERT INTO ulak.applications (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = $1 RETURNING id", name
    )
    return found


def ledger(pool: Pool, ring: KeyRing, catalogue: CatalogueCache | None = None) -> EmailLedger:
    return EmailLedger(
        pool,
        catalogue or CatalogueCache(pool),
        FixedRingSource(ring),
        default_locale="en",
        clock=lambda: datetime.now(UTC),
    )


def request(*to: str, template: str = "INVOICE_READY", cc: Sequence[str] = (), **changes: Any) -> EmailRequest:
    return EmailRequest(
        recipients=parse_recipients(to or ("ada@example.com",), cc),
        template=template,
        parameters={"number": "R-7", "name": "Ada"},
        **changes,
    )


def ask(ring: KeyRing, application: int, asked: EmailRequest | None = None, **changes: Any) -> EmailAsk:
    """A request from the source `shop`, written this moment; its key is its row's public id."""
    asked = request() if asked is None else asked
    source_id = changes.pop("source_id", None) or new_id()
    values: dict[str, Any] = {
        "id": new_id(),
        "source": "shop",
        "source_id": source_id,
        "application_id": application,
        "key": public_id(EMAIL, source_id),
        "fingerprint": email_fingerprint(ring, asked),
        "request": asked,
        "created_at": datetime.now(UTC),
    } | changes
    return EmailAsk(**values)


async def deliveries(pool: Pool, notification_id: UUID) -> list[asyncpg.Record]:
    return await pool.fetch(
        "SELECT * FROM ulak.deliveries WHERE notification_id = $1 ORDER BY target_key", notification_id
    )
