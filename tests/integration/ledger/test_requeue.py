"""An operator's requeue: what a repair can help is sent again, all else stays as it is."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.address import target_key
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing
from shared.delivery.consequence import dead_letter_fingerprint
from shared.delivery.requeue import Requeued, requeue_emails
from shared.postgres.audit import audit
from shared.postgres.pool import Pool
from shared.wire.message import DeliveryHint, decode
from tests.integration.ledger.world import ask, deliveries, ledger, request
from tests.integration.relay.rows import kept, retold

pytestmark = pytest.mark.postgres


async def failed(pool: Pool, ring: KeyRing, application: int, **reasons: str) -> UUID:
    """A message to `<name>@example.com` for each name, which then FAILED by that reason after eight attempts.

    A reason of SENT is no failure. The message's end has been told to its source, and nothing is in the outbox.
    """
    asked = ask(ring, application, request(*(f"{name}@example.com" for name in reasons)))
    await ledger(pool, ring).enter([asked])
    for name, reason in reasons.items():
        await pool.execute(
            "UPDATE ulak.deliveries SET status = $3, reason = $4, attempt = 8, last_error = 'x', provider = 'smtp' "
            "WHERE notification_id = $1 AND target_key = $2",
            asked.id,
            target_key(ring, "EMAIL", f"{name}@example.com"),
            *(("SENT", None) if reason == "SENT" else ("FAILED", reason)),
        )
    await pool.execute("UPDATE ulak.email_intakes SET settled_at = now()")
    await pool.execute("DELETE FROM ulak.outbox")
    return asked.id


async def requeue(pool: Pool, *ids: UUID, now: datetime | None = None, dry_run: bool = False) -> Requeued:
    async with pool.acquire() as connection, connection.transaction():
        return await requeue_emails(connection, ids, now=now or datetime.now(UTC), dry_run=dry_run)


async def test_those_who_can_be_helped_get_one_hint_together(pool: Pool, key_ring: KeyRing, application: int) -> None:
    id_ = await failed(pool, key_ring, application, ada="exhausted", b="render", c="target_gone", d="SENT")
    ada = target_key(key_ring, "EMAIL", "ada@example.com")
    fingerprint = dead_letter_fingerprint(DeliveryKey(id_, "EMAIL", ada), 8)
    await pool.execute(
        "INSERT INTO ulak.dead_letters (topic, fingerprint, notification_id, channel, target_key, error_class, "
        "first_seen, last_seen) VALUES ('email-tx-dlq', $1, $2, 'EMAIL', $3, 'exhausted', now(), now())",
        fingerprint,
        id_,
        ada,
    )

    assert await requeue(pool, id_) == Requeued(2, 0, frozenset({id_}))

    rows = await deliveries(pool, id_)
    assert sorted((row["status"], row["reason"], row["attempt"]) for row in rows if row["status"] != "PENDING") == [
        ("FAILED", "target_gone", 8),
        ("SENT", None, 8),
    ]
    pending = [row for row in rows if row["status"] == "PENDING"]
    assert [(row["reason"], row["attempt"], row["last_error"]) for row in pending] == [(None, 0, None)] * 2
    assert await kept(pool, id_)
    [hint] = await pool.fetch("SELECT * FROM ulak.outbox")
    assert hint["topic"] == "email-tx"
    decoded = decode(DeliveryHint, hint["payload"])
    assert (decoded.target_key, decoded.attempt) == (pending[0]["target_key"], 0)
    assert await pool.fetchval("SELECT settled_at IS NULL FROM ulak.email_intakes"), "its end is owed again"
    assert await pool.fetchval("SELECT state FROM ulak.dead_letters") == "replayed"
    log = await pool.fetch("SELECT * FROM ulak.delivery_log WHERE kind = 'operator'")
    assert [(row["result"], row["attempt"]) for row in log] == [("requeue", 8)] * 2
    async with pool.acquire() as connection:
        assert (await audit(connection, datetime.now(UTC))).clean


async def test_an_expired_one_is_skipped_and_told_and_its_request_goes(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    id_ = await failed(pool, key_ring, application, ada="exhausted")

    late = datetime.now(UTC) + timedelta(days=3)
    assert await requeue(pool, id_, now=late) == Requeued(0, 1, frozenset({id_}))

    [row] = await deliveries(pool, id_)
    assert (row["status"], row["reason"], row["attempt"]) == ("SKIPPED", "expired", 8)
    [event] = await pool.fetch("SELECT topic, payload FROM ulak.outbox")
    assert (event["topic"], event["payload"]) == ("delivery-events", retold(row))
    assert not await kept(pool, id_)
    assert await pool.fetchval("SELECT settled_at IS NULL FROM ulak.email_intakes")


async def test_a_dry_run_counts_and_changes_nothing(pool: Pool, key_ring: KeyRing, application: int) -> None:
    id_ = await failed(pool, key_ring, application, ada="config")
    before = await deliveries(pool, id_)

    assert await requeue(pool, id_, dry_run=True) == Requeued(1, 0, frozenset({id_}))

    assert await deliveries(pool, id_) == before
    assert await pool.fetchval("SELECT count(*) FROM ulak.outbox") == 0


async def test_again_or_cancelled_or_unknown_it_does_nothing(pool: Pool, key_ring: KeyRing, application: int) -> None:
    once = await failed(pool, key_ring, application, ada="no_template")
    cancelled = await failed(pool, key_ring, application, ada="exhausted")
    await pool.execute("UPDATE ulak.notifications SET state = 'CANCELLED' WHERE id = $1", cancelled)
    unknown = UUID(int=7)

    assert await requeue(pool, once, cancelled, unknown) == Requeued(1, 0, frozenset({once}))
    assert await requeue(pool, once, cancelled, unknown) == Requeued(0, 0, frozenset())
    assert await requeue(pool) == Requeued(0, 0, frozenset())
