"""Model B as it runs: a shop's table, relay and worker as processes, and a mail server that is the simulator.

kill -9 of the relay at both arrows of a mail's way that are this package's: between ledger and row, and between the
row's end and the link.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from shared.runtime.keyring import ring_json
from shared.wire.channel import DEFAULT_CHANNELS
from tests.integration.delivery.conftest import Simulator, simulator, simulator_process
from tests.integration.delivery.test_worker_process import Workers, create, simulator_environment
from tests.integration.relay.email.process import Barrier, StartRelay, relay_starter
from tests.integration.relay.email.world import until
from tests.integration.relay.intake.conftest import Shop

__all__ = ["simulator", "simulator_process"]

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

ADA, BOB, CAI = "ada@example.com", "bob@example.com", "cai@example.com"


@pytest.fixture
async def stage(own: Pool, kafka_settings: KafkaSettings) -> None:
    """The catalogue, and the topics of the lane."""
    await create(kafka_settings, DEFAULT_CHANNELS.lane("email-tx"))


@pytest.fixture
def settings(kafka_settings: KafkaSettings, redis_url: str, key_prefix: str) -> dict[str, str]:
    return {
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka_settings.topic_prefix,
        "ULAK_KAFKA_SESSION_TIMEOUT_MS": "6000",
        "ULAK_KAFKA_HEARTBEAT_INTERVAL_MS": "1000",
        "ULAK_REDIS_URL": redis_url,
        "ULAK_REDIS_KEY_PREFIX": key_prefix,
        "ULAK_DEFAULT_LOCALE": "en",
    }


@pytest.fixture
def start_relay(
    stage: None,
    database: str,
    foreign_database: str,
    key_ring: KeyRing,
    simulator: Simulator,
    tmp_path: Path,
    settings: dict[str, str],
) -> StartRelay:
    return relay_starter(database, foreign_database, key_ring, simulator, tmp_path, options=(), **settings)


@pytest.fixture
def workers(
    stage: None, database: str, key_ring: KeyRing, simulator: Simulator, tmp_path: Path, settings: dict[str, str]
) -> Iterator[Workers]:
    environment = {
        **simulator_environment(simulator),
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KEY_RING": ring_json(key_ring).decode(),
        **settings,
    }
    made = Workers(environment, tmp_path, [])
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
        process.wait(10)


@asynccontextmanager
async def barrier(dsn: str, pool: Pool, condition: str) -> AsyncIterator[Barrier]:
    """Holds updates of email_messages under the condition."""
    made = Barrier(dsn)
    try:
        await made.install(pool, "UPDATE", condition)
        yield made
    finally:
        made.close()


async def has_status(shop: Shop, id_: object, status: str) -> None:
    async def holds() -> bool:
        return bool(await shop.pool.fetchval("SELECT status = $2 FROM ulak.email_messages WHERE id = $1", id_, status))

    await until(holds, f"the row being {status}", within_sec=90)


async def links_are_closed(own: Pool) -> None:
    async def holds() -> bool:
        return bool(await own.fetchval("SELECT count(*) = 0 FROM ulak.email_intakes WHERE settled_at IS NULL"))

    await until(holds, "the links being closed", within_sec=90)


async def test_a_shop_s_mail_goes_to_three_at_once_and_its_row_says_so(
    own: Pool, shop: Shop, start_relay: StartRelay, workers: Workers, simulator: Simulator
) -> None:
    await workers.start("email-tx")
    async with start_relay():
        id_ = await shop.enqueue(ADA, cc=[BOB], bcc=[CAI])
        await has_status(shop, id_, "SENT")
        await links_are_closed(own)

    [mail] = await simulator.accepted("smtp")
    assert sorted(mail["content"]["rcptTo"]) == [ADA, BOB, CAI], "one DATA, a RCPT each"
    row = await shop.row(id_)
    assert row["outcomes"] == {"0": "SENT", "1": "SENT", "2": "SENT"}
    assert (row["provider"], row["attempt_count"], row["parameters"]) == ("smtp", 1, None)


async def test_one_recipient_refused_is_a_failed_row_that_names_it(
    own: Pool, shop: Shop, start_relay: StartRelay, workers: Workers, simulator: Simulator
) -> None:
    await simulator.fault("smtp", times=1, match={"to": BOB}, smtp={"phase": "rcpt", "code": 550, "text": "5.1.1 gone"})
    await workers.start("email-tx")
    async with start_relay():
        id_ = await shop.enqueue(ADA, BOB, CAI)
        await has_status(shop, id_, "FAILED")

    row = await shop.row(id_)
    assert (row["outcomes"]["0"], row["outcomes"]["2"]) == ("SENT", "SENT")
    assert row["outcomes"]["1"].startswith("FAILED target_gone")
    assert row["error_message"].startswith("target_gone: 1 of 3 recipients refused")
    [mail] = await simulator.accepted("smtp")
    assert sorted(mail["content"]["rcptTo"]) == [ADA, CAI]


async def test_killed_between_ledger_and_row_nobody_gets_it_twice(
    own: Pool, shop: Shop, foreign_database: str, start_relay: StartRelay, workers: Workers, simulator: Simulator
) -> None:
    """The mail is even sent before anybody takes the row again."""
    await workers.start("email-tx")
    id_ = await shop.enqueue(ADA)
    async with barrier(foreign_database, shop.pool, "NEW.status = 'SENDING'") as held:
        async with start_relay() as relay:
            await held.reached(shop.pool)
            await until(lambda: one_mail(simulator), "the mail of the committed entry", within_sec=90)
            relay.kill()
        assert (await shop.row(id_))["status"] == "PENDING"
        await held.lift(shop.pool)

    async with start_relay():
        await has_status(shop, id_, "SENT")
        await links_are_closed(own)
    assert await one_mail(simulator)
    assert await own.fetchval("SELECT count(*) FROM ulak.notifications") == 1


async def one_mail(simulator: Simulator) -> bool:
    return len(await simulator.accepted("smtp")) == 1


async def test_killed_between_the_row_s_end_and_the_link_it_is_told_once(
    own: Pool, shop: Shop, start_relay: StartRelay, workers: Workers
) -> None:
    async with own.acquire() as holder, start_relay() as relay:
        id_ = await shop.enqueue(ADA)
        await has_status(shop, id_, "SENDING")
        async with holder.transaction():
            await holder.execute("LOCK TABLE ulak.email_intakes IN EXCLUSIVE MODE")  # who closes the link must wait
            await workers.start("email-tx")
            await has_status(shop, id_, "SENT")
            relay.kill()
    before = await shop.row(id_)
    await own.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE 'ulak relay%'"
    )
    assert await own.fetchval("SELECT count(*) FROM ulak.email_intakes WHERE settled_at IS NULL") == 1

    async with start_relay():
        await links_are_closed(own)
    assert await shop.row(id_) == before


async def test_a_source_that_is_down_keeps_its_links_and_stops_no_other(
    own: Pool, shop: Shop, start_relay: StartRelay, workers: Workers, database: str, foreign_database: str
) -> None:
    """Ulak's own database is a source as well: what a service enqueues there is told there."""
    await workers.start("email-tx")
    sources = f'[{{"name": "shop", "dsn": "{foreign_database}"}}]'
    async with start_relay(ULAK_RELAY_SOURCES=sources):
        id_ = await shop.enqueue(ADA)
        await has_status(shop, id_, "SENDING")
        await own.execute("UPDATE ulak.email_intakes SET source = 'away'")  # as if its database had gone meanwhile

    down = '[{"name": "away", "dsn": "postgresql://nobody@127.0.0.1:1/none"}]'
    beside = Shop(own)
    async with start_relay(ULAK_RELAY_SOURCES=down):
        here = await beside.enqueue(BOB)
        await has_status(beside, here, "SENT")

    assert await own.fetchval("SELECT count(*) FROM ulak.email_intakes WHERE settled_at IS NULL") == 1
    await own.execute("UPDATE ulak.email_intakes SET source = 'shop' WHERE source = 'away'")
    async with start_relay(ULAK_RELAY_SOURCES=sources):
        await has_status(shop, id_, "SENT")
