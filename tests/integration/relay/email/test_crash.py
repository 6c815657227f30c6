"""kill -9 of a relay at each arrow of one mail's way, and what the next relay finds (seed 000 sections 6, 7 and 11)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.runtime.keyring import ring_json
from tests.integration.delivery.conftest import Simulator
from tests.integration.relay.email.process import IMPATIENT, Barrier, StartRelay, relay_starter
from tests.integration.relay.email.world import World, until

pytestmark = pytest.mark.postgres

AYSE = "ayse@example.com"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "outgoing").mkdir(parents=True)
    return folder


@pytest.fixture
def start(
    database: str, foreign_database: str, key_ring: KeyRing, simulator: Simulator, tmp_path: Path, files: Path
) -> StartRelay:
    storage = {"ULAK_STORAGE_FOLDER": str(files), "ULAK_STORAGE_OWNED": "file:outgoing/"}
    return relay_starter(database, foreign_database, key_ring, simulator, tmp_path, **IMPATIENT, **storage)


@asynccontextmanager
async def barrier(dsn: str, world: World, event: str, condition: str = "true") -> AsyncIterator[Barrier]:
    made = Barrier(dsn)
    try:
        await made.install(world.source, event, condition)
        yield made
    finally:
        made.close()


def message_ids(mails: list[dict[str, Any]]) -> list[str]:
    return [mail["content"]["headers"]["Message-ID"] for mail in mails]


async def has_status(world: World, row_id: UUID, status: str) -> bool:
    found: str = (await world.row(row_id))["status"]
    return found == status


async def test_killed_after_the_claim_the_mail_goes_out_once_its_lease_is_over(
    world: World, start: StartRelay, simulator: Simulator
) -> None:
    """Between claim and send: the relay waits for the facts, which the test holds."""
    row_id = await world.enqueue(AYSE)
    async with world.own.acquire() as holder:
        async with holder.transaction():
            await holder.execute("LOCK TABLE ulak.suppressions IN ACCESS EXCLUSIVE MODE")
            async with start() as relay:
                await until(lambda: has_status(world, row_id, "SENDING"), "the claim")
                relay.kill()
        assert await simulator.accepted("smtp") == []
        assert (await world.row(row_id))["status"] == "SENDING"
    async with start() as relay:
        await until(lambda: has_status(world, row_id, "SENT"), "the second relay's mail")
        assert await relay.metric('ulak_email_reaped_total{source="shop"}') == 1
    assert len(await simulator.accepted("smtp")) == 1
    assert (await world.row(row_id))["attempt_count"] == 2, "the attempt of the killed one counts (ADR 0005)"


async def test_killed_after_the_providers_acceptance_before_SENT_it_goes_out_twice_under_one_message_id(
    world: World, start: StartRelay, simulator: Simulator, foreign_database: str
) -> None:
    """The window that no system can close (seed 000 section 7): at least once, told apart by nothing but its id."""
    row_id = await world.enqueue(AYSE)
    async with barrier(foreign_database, world, "UPDATE", "NEW.status = 'SENT'") as held:
        async with start() as relay:
            await held.reached(world.source)
            assert len(await simulator.accepted("smtp")) == 1
            relay.kill()
        await held.lift(world.source)
    assert (await world.row(row_id))["status"] == "SENDING"
    async with start():
        await until(lambda: has_status(world, row_id, "SENT"), "the second relay's mail")
    mails = await simulator.accepted("smtp")
    assert len(mails) == 2
    assert len(set(message_ids(mails))) == 1


async def test_killed_after_SENT_nothing_goes_out_again(world: World, start: StartRelay, simulator: Simulator) -> None:
    row_id = await world.enqueue(AYSE)
    async with start() as relay:
        await until(lambda: has_status(world, row_id, "SENT"), "the mail")
        relay.kill()
    later = await world.enqueue("bora@example.com")
    async with start():
        await until(lambda: has_status(world, later, "SENT"), "the second relay's mail")
    assert [mail["content"]["rcptTo"] for mail in await simulator.accepted("smtp")] == [[AYSE], ["bora@example.com"]]


async def test_killed_between_file_and_row_the_next_retention_ends_it(
    world: World, start: StartRelay, foreign_database: str, files: Path
) -> None:
    attachment = {"filename": "a.pdf", "contentType": "application/pdf", "storageRef": "file:outgoing/a.pdf"}
    (files / "outgoing/a.pdf").write_bytes(b"%PDF")
    row_id = await world.enqueue(AYSE, attachments=[attachment])
    await world.update(row_id, status="SENT", created_at=datetime.now(UTC) - timedelta(days=91))
    async with barrier(foreign_database, world, "DELETE") as held:
        async with start() as relay:
            await held.reached(world.source)
            assert not (files / "outgoing/a.pdf").exists()
            relay.kill()
        await held.lift(world.source)
    assert (await world.row(row_id))["status"] == "SENT", "a row without its file is better than a file without its row"
    async with start():
        await until(lambda: gone(world, row_id), "the row's removal")


async def gone(world: World, row_id: UUID) -> bool:
    return not await world.source.fetchval("SELECT count(*) FROM ulak.email_messages WHERE id = $1", row_id)


async def test_at_SIGTERM_the_mail_on_the_wire_is_finished_and_the_rest_is_free_at_once(
    world: World, start: StartRelay, simulator: Simulator
) -> None:
    """Nobody waits for a lease after a deploy."""
    await simulator.fault("smtp", delayMs=1500)
    ids = [await world.enqueue(f"user{number}@example.com") for number in range(60)]
    # A deadline that no slow machine comes near, and a lease as long.
    patient = {"ULAK_RELAY_EMAIL_SEND_DEADLINE_SEC": "30", "ULAK_RELAY_EMAIL_LEASE_SEC": "60"}
    async with start(ULAK_SMTP_CONCURRENCY="5", **patient):

        async def some_arrived() -> bool:
            return len(await simulator.accepted("smtp")) >= 5

        await until(some_arrived, "the first mails")
    rows = [await world.row(row_id) for row_id in ids]
    statuses = {row["status"] for row in rows}
    assert statuses == {"SENT", "PENDING"}
    assert {row["attempt_count"] for row in rows if row["status"] == "PENDING"} == {0}
    assert sum(row["status"] == "SENT" for row in rows) == len(await simulator.accepted("smtp"))


async def test_a_commit_is_heard_at_once_and_what_a_cut_listener_missed_is_found_O4(
    world: World, start: StartRelay, simulator: Simulator
) -> None:
    """With a poll of ten minutes only NOTIFY, or the listener's return, can be so quick."""
    async with start(ULAK_RELAY_EMAIL_POLL_SEC="600"):
        first = await world.enqueue(AYSE)
        await until(lambda: has_status(world, first, "SENT"), "the mail that NOTIFY told of")
        await world.source.execute("ALTER TABLE ulak.email_messages DISABLE TRIGGER email_notify")
        missed = await world.enqueue(AYSE)
        cut = await world.source.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'ulak relay listen'"
        )
        assert cut == 1
        await until(lambda: has_status(world, missed, "SENT"), "the mail that was missed")


async def test_without_notify_the_poll_finds_it(world: World, start: StartRelay) -> None:
    await world.source.execute("ALTER TABLE ulak.email_messages DISABLE TRIGGER email_notify")
    async with start(ULAK_RELAY_LISTEN="false"):
        row_id = await world.enqueue(AYSE)
        await until(lambda: has_status(world, row_id, "SENT"), "the poll")


async def test_two_relays_with_different_rings_lose_nothing_during_a_rotation(
    world: World, start: StartRelay, simulator: Simulator
) -> None:
    """Each row goes to whoever claims it; who lacks its key puts it back for the other."""
    new = KeyRing("k2", {"k2": b"2" * 32}, world.ring.lookup_key)
    ids = [await world.enqueue_sealed(world.ring, f"a{number}@example.com") for number in range(10)]
    ids += [await world.enqueue_sealed(new, f"b{number}@example.com") for number in range(10)]
    async with start():
        await until(lambda: sent(world, 10), "the rows under the old key")
        both = KeyRing("k2", {**world.ring.keys, **new.keys}, world.ring.lookup_key)
        waiting = [row_id for row_id in ids if (await world.row(row_id))["status"] == "PENDING"]
        assert len(waiting) == 10
        for row_id in waiting:
            await world.due_now(row_id)
        async with start(ULAK_KEY_RING=ring_json(both).decode()):
            await until(lambda: sent_after_nudge(world, waiting), "the rows under the new key")
    assert len(await simulator.accepted("smtp")) == 20


async def sent(world: World, wanted: int) -> bool:
    return (await world.statuses()).get("SENT", 0) >= wanted


async def sent_after_nudge(world: World, waiting: list[UUID]) -> bool:
    """The relay with the old ring may have put them back for half a minute; the test does not wait so long."""
    await world.source.execute(
        "UPDATE ulak.email_messages SET next_attempt_at = now() WHERE id = ANY ($1::uuid[]) AND status = 'PENDING'",
        waiting,
    )
    return await sent(world, 20)


@pytest.mark.kafka
async def test_the_ordinary_relay_sends_model_a_as_well(
    world: World,
    database: str,
    foreign_database: str,
    key_ring: KeyRing,
    simulator: Simulator,
    tmp_path: Path,
    kafka_settings: KafkaSettings,
) -> None:
    kafka = {
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka_settings.topic_prefix,
    }
    start = relay_starter(database, foreign_database, key_ring, simulator, tmp_path, options=(), **kafka)
    row_id = await world.enqueue(AYSE)
    async with start():
        await until(lambda: has_status(world, row_id, "SENT"), "the mail")
    assert len(await simulator.accepted("smtp")) == 1


async def test_without_a_provider_it_says_what_to_set(database: str, key_ring: KeyRing) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ULAK_")},
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KEY_RING": ring_json(key_ring).decode(),
        "ULAK_HEALTH_PORT": "0",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.relay", "--model-a", env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert all(name in said for name in (b"smtp", b"ses", b"sendgrid", b"mailgun", b"docs/settings.md"))
