"""The relay as it is run: a process of its own, a real broker, killed at the worst moment."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.core.lifecycle import NotificationState
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from shared.wire.channel import MessageClass
from shared.wire.message import DeliveryHint, RequestHint, decode
from tests.integration.kafka.harness import read_all
from tests.integration.relay.process import relay, until_count, until_read
from tests.integration.relay.rows import add_claimed, add_delivery, add_notification, add_outbox, count, delivery

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]


async def test_killed_between_acknowledgement_and_commit_it_publishes_again_K10(
    pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """A trigger holds the relay's COMMIT while its message is already on the topic; there it is killed."""
    await pool.execute(
        """
        CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER hold AFTER DELETE ON ulak.outbox DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION hold();
        """
    )
    await add_outbox(pool, payload=b"event-1", headers={"ce_id": "1"})
    async with pool.acquire() as holder:
        await holder.execute("SELECT pg_advisory_lock(7)")
        with relay(database, kafka, tmp_path / "first.log") as process:
            assert await until_read(kafka, "orders", 1) == [b"event-1"]
            process.kill()
            process.wait()
        await holder.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'ulak relay%'"
        )
        await holder.execute("SELECT pg_advisory_unlock(7)")
    assert await count(pool, "outbox") == 1, "what was not committed is back"

    with relay(database, kafka, tmp_path / "second.log"):
        await until_count(pool, "outbox", 0)

    messages = await read_all(kafka, "orders")
    assert [message.value() for message in messages] == [b"event-1", b"event-1"]
    assert {dict(message.headers() or [])["ce_id"] for message in messages} == {b"1"}, "under the same event id"


async def test_two_relays_one_killed_lose_nothing(
    pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    await pool.execute(
        "INSERT INTO ulak.outbox (topic, payload) SELECT 'orders', n::text::bytea FROM generate_series(1, 20000) AS n"
    )
    with relay(database, kafka, tmp_path / "a.log") as first, relay(database, kafka, tmp_path / "b.log"):
        await until_read(kafka, "orders", 1000)
        first.kill()
        first.wait()
        await until_count(pool, "outbox", 0)

    assert {int(value) for value in await until_read(kafka, "orders", 20_000)} == set(range(1, 20_001))


async def test_a_source_is_heard_at_once_and_one_that_is_down_stops_nobody(
    pool: Pool, foreign_pool: Pool, foreign_database: str, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """With a poll of a minute only NOTIFY can be so quick."""
    down = "postgresql://nobody@127.0.0.1:1/none"
    settings = {"ULAK_RELAY_SOURCES": f"{down},{foreign_database}", "ULAK_RELAY_POLL_SEC": "60"}
    await add_outbox(foreign_pool, payload=b"before")
    with relay(database, kafka, tmp_path / "relay.log", **settings):
        await until_read(kafka, "orders", 1)
        await add_outbox(foreign_pool, payload=b"after")
        assert await until_read(kafka, "orders", 2) == [b"before", b"after"]

    assert b"nobody" not in (tmp_path / "relay.log").read_bytes(), "no credentials in the log"


async def test_a_listener_that_was_cut_off_comes_back_and_scans_O4(
    pool: Pool, foreign_pool: Pool, foreign_database: str, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    settings = {"ULAK_RELAY_SOURCES": foreign_database, "ULAK_RELAY_POLL_SEC": "60"}
    with relay(database, kafka, tmp_path / "relay.log", **settings):
        await add_outbox(foreign_pool, payload=b"1")
        await until_read(kafka, "orders", 1)
        await foreign_pool.execute("ALTER TABLE ulak.outbox DISABLE TRIGGER outbox_notify")
        await add_outbox(foreign_pool, payload=b"2")
        cut = await foreign_pool.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'ulak relay listen'"
        )
        assert cut == 1
        assert await until_read(kafka, "orders", 2) == [b"1", b"2"]


async def test_an_outbox_without_notify_is_found_by_the_poll_O5(
    pool: Pool, foreign_pool: Pool, foreign_database: str, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    await foreign_pool.execute("DROP TRIGGER outbox_notify ON ulak.outbox")
    with relay(database, kafka, tmp_path / "relay.log", ULAK_RELAY_SOURCES=foreign_database):
        await add_outbox(foreign_pool, payload=b"1")
        assert await until_read(kafka, "orders", 1) == [b"1"]


async def test_oversized_and_unknown_rows_do_not_hold_later_ones_on_a_real_broker_K15(
    pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    await add_outbox(pool, payload=b"x" * 1_200_000)
    await add_outbox(pool, topic="oders")
    await add_outbox(pool, payload=b"later")
    with relay(database, kafka, tmp_path / "relay.log"):
        assert await until_read(kafka, "orders", 1) == [b"later"]
        await until_count(pool, "dead_letters", 2)

    assert await count(pool, "outbox") == 2


async def test_hints_that_never_came_are_swept_and_dead_workers_reaped(
    pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """A horizon of a second; the next one far off, so that a slow start does not leave these ids to it."""
    accepted = await add_notification(pool)
    decided = await add_notification(pool, state=NotificationState.DECIDED)
    pending = await add_delivery(pool, decided)
    stuck, _ = await add_claimed(pool)
    settings = {
        "ULAK_RELAY_SWEEP_HORIZONS_SEC": "1",
        "ULAK_RELAY_SWEEP_REPEAT_SEC": "60",
        "ULAK_RELAY_SWEEP_POLL_SEC": "0.2",
    }
    with relay(database, kafka, tmp_path / "relay.log", **settings):
        asked = [decode(RequestHint, value) for value in await until_read(kafka, "notification-requests-tx", 1)]
        hints = [decode(DeliveryHint, value) for value in await until_read(kafka, "push-tx", 2)]

    assert [hint.notification_id for hint in asked] == [accepted]
    assert {(hint.notification_id, hint.attempt) for hint in hints} >= {
        (pending.notification_id, 0),
        (stuck.notification_id, 1),
    }
    assert (await delivery(pool, stuck))["status"] == "PENDING"


async def test_a_critical_row_overtakes_a_backlog_of_bulk(
    pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    await pool.execute(
        "INSERT INTO ulak.outbox (topic, payload, message_class) "
        "SELECT 'orders', repeat('b', 500)::bytea, 2 FROM generate_series(1, 50000)"
    )
    await add_outbox(pool, topic="domain-events", payload=b"code", message_class=MessageClass.CRITICAL)
    with relay(database, kafka, tmp_path / "relay.log"):
        assert await until_read(kafka, "domain-events", 1) == [b"code"]
        assert await count(pool, "outbox") > 0, "long before the backlog is through"


async def test_wrong_settings_end_the_start_with_their_names(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "ULAK_RELAY_SWEEP_HORIZONS_SEC": "soon",
        "ULAK_POSTGRES_DSN": "postgresql://x/y",
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": "x",
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "services.relay"],
        env=environment,
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert b"ULAK_RELAY_SWEEP_HORIZONS_SEC" in done.stderr
