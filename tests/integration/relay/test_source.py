"""Sources: each opened, limited and watched by itself."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import orjson
import psycopg
import pytest

from ops.dev.ports import reserve_ports
from services.relay.gauges import Gauges
from services.relay.opener import Opener
from services.relay.outbox_loops import reading_loops
from services.relay.publication import Ways
from services.relay.settings import RelaySettings
from services.relay.source import ForeignSource, Source, open_source
from services.relay.topics import TopicDirectory
from shared.kafka.memory import InMemoryProducer
from shared.kafka.settings import KafkaSettings
from shared.postgres import producer
from shared.postgres.errors import SchemaOutdatedError
from shared.postgres.pool import Pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import SourceSpec
from shared.runtime.keyring import FixedRingSource
from shared.runtime.metrics import OLDEST_SNAPSHOT, OUTBOX_OLDEST, OUTBOX_SET_ASIDE, SOURCE_UP
from shared.runtime.service import Stop
from shared.wire.channel import MessageClass
from tests.integration.plain_http import plain_client
from tests.integration.relay.process import WITHIN_SEC, relay, scraped, until_count, until_read
from tests.integration.relay.rows import add_outbox

pytestmark = pytest.mark.postgres


@pytest.fixture
def bare_database(postgres_server: str) -> Iterator[str]:
    """DSN of a service's database without our schema."""
    name = f"bare_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        yield urlunsplit(urlsplit(postgres_server)._replace(path=f"/{name}"))
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def run_sql(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.encode())


@pytest.fixture
async def shop(foreign_database: str) -> AsyncIterator[Source]:
    spec = SourceSpec("shop", foreign_database, "shop", pool_size=2)
    async with open_source(spec, RelaySettings(), PostgresSettings(dsn="postgresql://ulak/ulak")) as source:
        yield source


@pytest.mark.parametrize("steps", [(), producer.STEPS[:1]], ids=["no-schema", "schema-1"])
async def test_a_schema_that_is_missing_or_too_old_is_told_with_the_remedy(
    bare_database: str, steps: tuple[str, ...]
) -> None:
    for name in steps:
        run_sql(bare_database, producer.step(name))
    spec = SourceSpec("bare", bare_database, "bare")

    with pytest.raises(SchemaOutdatedError, match="run `ulak outbox ddl"):
        async with open_source(spec, RelaySettings(), PostgresSettings(dsn=bare_database)):
            pass


@pytest.mark.kafka
async def test_a_source_without_our_schema_holds_no_other_and_is_read_once_it_has_it(
    pool: Pool,
    foreign_pool: Pool,
    foreign_database: str,
    bare_database: str,
    database: str,
    kafka: KafkaSettings,
    tmp_path: Path,
) -> None:
    sources = [
        {"name": "bare", "dsn": bare_database},
        {"name": "down", "dsn": "postgresql://nobody:s3cret@127.0.0.1:1/none"},
        {"name": "shop", "dsn": foreign_database},
    ]
    port = reserve_ports(tmp_path / "ports.json", ["health"], seed=str(tmp_path))["health"]
    log = tmp_path / "relay.log"
    settings = {"ULAK_RELAY_SOURCES": orjson.dumps(sources).decode(), "ULAK_HEALTH_PORT": str(port)}
    with relay(database, kafka, log, **settings):
        await add_outbox(foreign_pool, payload=b"1")
        assert await until_read(kafka, "orders", 1) == [b"1"]
        async with plain_client(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
        for name, up in (("bare", 0), ("down", 0), ("shop", 1), ("own", 1)):
            assert await scraped(port, f'ulak_relay_source_up{{source="{name}"}}') == up, name

        run_sql(bare_database, producer.ddl())
        run_sql(bare_database, "INSERT INTO ulak.outbox (topic, payload) VALUES ('orders', '2')")
        assert await until_read(kafka, "orders", 2) == [b"1", b"2"]
        assert await scraped(port, 'ulak_relay_source_up{source="bare"}') == 1

    lines = [orjson.loads(line) for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    failed = {line["loop"]: line for line in lines if line["event"] == "relay_round_failed"}
    assert "run `ulak outbox ddl" in failed["source@bare"]["error"]
    assert "127.0.0.1:1" in failed["source@down"]["error"]
    assert b"s3cret" not in log.read_bytes()


async def test_one_connection_is_enough_for_all_classes_and_kinds_of_rows(
    pool: Pool, foreign_pool: Pool, foreign_database: str, broker: InMemoryProducer, rings: FixedRingSource
) -> None:
    """poolSize limits what a source lends us; batch is its own as well. Some rows are refused, and listed in ours."""
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox (topic, key, payload, ordered, message_class) "
        "SELECT CASE WHEN n % 10 = 0 THEN 'oders' ELSE 'orders' END, '1', n::text::bytea, n % 2 = 0, n % 4 "
        "FROM generate_series(1, 400) AS n"
    )

    async def topics() -> frozenset[str]:
        return frozenset({"orders"})

    ways = Ways(broker, TopicDirectory(topics, declared=()), Opener(rings, clock=time.monotonic), index=pool)
    spec = SourceSpec("shop", foreign_database, "shop", pool_size=1, batch=7)
    settings = RelaySettings()
    loops_of = partial(reading_loops, settings=settings, critical=ways, others=ways)
    source = ForeignSource(spec, settings, PostgresSettings(dsn="postgresql://ulak/ulak"), loops_of)
    stop = Stop()
    running = asyncio.create_task(source.run(stop))
    await until_count(foreign_pool, "outbox", 40)
    await until_count(pool, "dead_letters", 40)
    stop.request()
    await asyncio.wait_for(running, WITHIN_SEC)

    assert len(broker.records) == 360


async def test_what_waits_and_what_is_set_aside_is_measured_by_source(shop: Source, foreign_pool: Pool) -> None:
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox (topic, payload, message_class, available_at) VALUES "
        "('orders', '', 2, now() - interval '100 seconds'), "
        "('orders', '', 2, 'infinity'), ('orders', '', 0, 'infinity')"
    )

    await Gauges(shop).round()

    assert 100 <= OUTBOX_OLDEST.labels("shop", MessageClass.BULK.label)._value.get() < 160
    assert OUTBOX_OLDEST.labels("shop", MessageClass.TX.label)._value.get() == 0
    assert OUTBOX_SET_ASIDE.labels("shop")._value.get() == 2
    assert SOURCE_UP.labels("shop")._value.get() == 1


async def test_a_long_transaction_shows_in_the_source_s_metrics_O6(shop: Source, foreign_pool: Pool) -> None:
    async with foreign_pool.acquire() as idle, idle.transaction(isolation="repeatable_read"):
        await idle.fetchval("SELECT count(*) FROM ulak.outbox")
        began = time.monotonic()
        while OLDEST_SNAPSHOT.labels("shop")._value.get() < 0.2:
            assert time.monotonic() - began < WITHIN_SEC
            await Gauges(shop).round()
    await Gauges(shop).round()
    assert OLDEST_SNAPSHOT.labels("shop")._value.get() < 0.2


async def test_a_source_that_stops_answering_is_down(shop: Source, foreign_pool: Pool) -> None:
    gauges = Gauges(shop)
    await gauges.round()
    await foreign_pool.execute("ALTER TABLE ulak.outbox RENAME TO gone")

    with pytest.raises(Exception, match="outbox"):
        await gauges.round()

    assert SOURCE_UP.labels("shop")._value.get() == 0
