"""What the database's own tests need beside the shared fixtures: a database without a schema, and rows to plant."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import psycopg
import pytest

from shared.core.identifier import lowest_id_at
from shared.postgres.pool import Connection, Pool

Plant = Callable[..., Awaitable[None]]


@pytest.fixture
def empty_database(postgres_server: str) -> Iterator[str]:
    """DSN of a database that no migration has seen."""
    name = f"ulak_empty_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    yield urlunsplit(urlsplit(postgres_server)._replace(path=f"/{name}"))
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def id_of() -> Callable[[datetime], UUID]:
    """A fresh id that was made at a moment."""
    return lambda moment: UUID(int=lowest_id_at(moment).int | 7 << 76 | 2 << 62 | secrets.randbits(60))


@pytest.fixture
def until(pool: Pool) -> Callable[[str], Awaitable[None]]:
    """Wait until a query of the server's own views answers true; fails after a minute."""

    async def wait(question: str) -> None:
        async with asyncio.timeout(60):
            while not await pool.fetchval(question):  # noqa: ASYNC110  # the server has no event to wait for
                await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def plant(pool: Pool) -> Plant:
    """Insert one row into a hot table, with defaults for all that the test does not name."""

    async def insert(table: str, *, connection: Connection | None = None, **given: Any) -> None:
        now = datetime.now(UTC)
        defaults: dict[str, dict[str, Any]] = {
            "notifications": {
                "application_id": 1, "event_id": "e", "type": "T", "message_class": 1, "mode": "live",
                "state": "DECIDED", "expires_at": now + timedelta(days=1), "created_at": now,
            },
            "deliveries": {
                "channel": "SMS", "target_key": b"t", "status": "SENT", "message_class": 1,
                "promise": "AT_MOST_ONCE", "mode": "live", "next_attempt_at": now,
                "expires_at": now + timedelta(days=1), "created_at": now, "updated_at": now,
            },
            "contents": {
                "channel": "SMS", "sealed": b"s", "purpose": "content-v1", "locale": "tr", "template_version": 1
            },
            "delivery_log": {"kind": "verdict", "result": "go"},
            "notification_dedup": {
                "application_id": 1, "key": "k", "mapping": "T", "request_hmac": b"h", "until": now
            },
            "deferred": {"due_at": now, "kind": "notification"},
            "leases": {"lane": "sms-tx", "lease_until": now},
            "unknown_open": {"channel": "SMS", "target_key": b"t", "since": now},
        }  # fmt: skip
        row = {**defaults[table], **given}
        names, marks = ", ".join(row), ", ".join(f"${n}" for n in range(1, len(row) + 1))
        await (connection or pool).execute(f"INSERT INTO ulak.{table} ({names}) VALUES ({marks})", *row.values())

    return insert
