"""Which values are sealed under which key: every sealed column is found, every value counted once."""

import asyncio
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.sealing import KeyRing, Purpose, seal
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.postgres.sealed import count_sealed
from tests.integration.postgres.conftest import Plant

pytestmark = pytest.mark.postgres

KEYS = {"k1": bytes(range(32)), "k2": bytes(range(32, 64)), "a-long-id-" + "x" * 54: bytes(32)}


def sealed(key_id: str, plain: bytes = b"x") -> bytes:
    return seal(KeyRing(active=key_id, keys=KEYS, lookup_key=bytes(32)), Purpose.CONTENT, b"row", plain)


async def test_the_columns_are_those_that_the_documents_name(pool: Pool) -> None:
    rows = await pool.fetch(load_queries("sealed")["columns"])
    assert {row["name"] for row in rows} == {
        "consents.address_sealed",
        "consents.evidence_sealed",
        "contents.sealed",
        "deliveries.address_sealed",
        "devices.token_sealed",
        "email_messages.parameters",
        "email_messages.recipients",
        "email_messages_archive.parameters",
        "email_messages_archive.recipients",
        "inbox.content_sealed",
        "notifications.params_sealed",
        "outbox.payload",
        "outbox_published.payload",
        "recipients.email_sealed",
        "recipients.phone_sealed",
        "sender_profiles.dkim_key_sealed",
        "suppressions.address_sealed",
    }
    assert len(rows) > 13  # partitions each by itself


async def test_values_are_counted_by_key_and_column(
    pool: Pool, plant: Plant, id_of: Callable[[datetime], UUID]
) -> None:
    now = datetime.now(UTC)
    long_id = next(key_id for key_id in KEYS if key_id.startswith("a-long"))
    for day in (now - timedelta(days=1), now):
        await plant("notifications", id=id_of(day), params_sealed=sealed("k1"))
        await plant("contents", notification_id=id_of(day), sealed=sealed("k2", secrets.token_bytes(50_000)))
    await plant("notifications", id=id_of(now), params_sealed=None)
    await plant("contents", notification_id=id_of(now), sealed=sealed(long_id))
    await pool.execute(
        "INSERT INTO ulak.recipients (external_id, email_sealed, phone_sealed) VALUES ('1', $1, $2), ('2', $1, NULL)",
        sealed("k1"),
        sealed("k2"),
    )
    await pool.execute(
        "INSERT INTO ulak.outbox (message_class, topic, payload, sealed)"
        " VALUES (1, 't', $1, true), (1, 't', $2, false)",
        sealed("k1"),
        b'{"in": "the clear"}',
    )
    async with pool.acquire() as connection:
        found = await count_sealed(connection)
    assert found.by_key == {
        "k1": {"notifications.params_sealed": 2, "recipients.email_sealed": 2, "outbox.payload": 1},
        "k2": {"contents.sealed": 2, "recipients.phone_sealed": 1},
        long_id: {"contents.sealed": 1},
    }
    assert found.unreadable == {}


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02\x02k1" + bytes(40), b"clear text"])
async def test_what_is_no_sealed_value_is_told_apart(
    pool: Pool, plant: Plant, id_of: Callable[[datetime], UUID], value: bytes
) -> None:
    await plant("contents", notification_id=id_of(datetime.now(UTC)), sealed=value)
    async with pool.acquire() as connection:
        found = await count_sealed(connection)
    assert (found.by_key, found.unreadable) == ({}, {"contents.sealed": 1})


async def test_rows_that_move_while_they_are_counted_are_counted_once(pool: Pool) -> None:
    """Every update writes a row anew somewhere else; a count by place alone would miss some and see others twice."""
    rows = 60_000
    await pool.execute(
        "INSERT INTO ulak.recipients (external_id, email_sealed, attributes)"
        " SELECT n::text, $1, jsonb_build_object('filler', repeat('x', 400)) FROM generate_series(1, $2::int) AS n",
        sealed("k1"),
        rows,
    )
    steps: list[tuple[int, int]] = []
    counted = asyncio.Event()

    async def move() -> int:
        moved = 0
        while not counted.is_set():
            await pool.execute(
                "UPDATE ulak.recipients SET email_sealed = $1 WHERE external_id = $2",
                sealed("k1"),
                str(moved % rows + 1),
            )
            moved += 1
        return moved

    movers = [asyncio.create_task(move()) for _ in range(3)]
    async with pool.acquire() as connection:
        found = await count_sealed(connection, lambda done, total: steps.append((done, total)))
    counted.set()
    assert sum(await asyncio.gather(*movers)) > 0
    assert found.by_key == {"k1": {"recipients.email_sealed": rows}}
    dones = [done for done, _ in steps]
    assert dones == sorted(dones)
    assert len(set(dones)) > 2  # progress shows within one table
    assert steps[-1][0] <= steps[-1][1]
