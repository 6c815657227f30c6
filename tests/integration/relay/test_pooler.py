"""A source behind a real PgBouncer in transaction mode (O5)."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from tests.integration.relay.pooler import pooler
from tests.integration.relay.process import relay, until_count, until_read
from tests.integration.relay.rows import add_outbox, count

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.distribution]


@pytest.fixture
def pooled(foreign_database: str, tmp_path: Path) -> Iterator[str]:
    with pooler(foreign_database, tmp_path) as dsn:
        yield dsn


def sources(pooled: str, **more: str) -> str:
    return orjson.dumps([{"name": "shop", "dsn": pooled, "pooled": True, **more}]).decode()


async def test_outbox_rows_of_every_kind_pass_a_pooler_O5(
    pooled: str, foreign_pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Fewer server connections than transactions at a time: each statement may land on another one."""
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox (topic, key, payload, ordered, message_class) "
        "SELECT 'orders', (n % 50)::text::bytea, n::text::bytea, n % 2 = 0, n % 4 FROM generate_series(1, 4000) AS n"
    )
    with relay(database, kafka, tmp_path / "relay.log", ULAK_RELAY_SOURCES=sources(pooled)):
        await until_count(foreign_pool, "outbox", 0)
        await until_count(foreign_pool, "outbox_published", 4000)
        values = await until_read(kafka, "orders", 4000)

    assert sorted(int(value) for value in values) == list(range(1, 4001)), "each once"
    log = (tmp_path / "relay.log").read_text()
    assert "relay_round_failed" not in log


async def test_listening_on_a_direct_connection_wakes_a_pooled_source_O5(
    pooled: str, foreign_pool: Pool, foreign_database: str, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """With a poll of a minute only NOTIFY can be so quick, and only past the pooler is it heard."""
    settings = {"ULAK_RELAY_SOURCES": sources(pooled, listenDsn=foreign_database), "ULAK_RELAY_POLL_SEC": "60"}
    await add_outbox(foreign_pool, payload=b"before")
    with relay(database, kafka, tmp_path / "relay.log", **settings):
        await until_read(kafka, "orders", 1)
        await add_outbox(foreign_pool, payload=b"after")
        assert await until_read(kafka, "orders", 2) == [b"before", b"after"]
        listening = await foreign_pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'ulak relay listen'"
        )
    assert listening == 1
    assert await count(foreign_pool, "outbox") == 0
    assert urlsplit(pooled).port != urlsplit(foreign_database).port


async def test_a_pooled_source_without_a_direct_connection_is_polled_O5(
    pooled: str, foreign_pool: Pool, database: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    with relay(database, kafka, tmp_path / "relay.log", ULAK_RELAY_SOURCES=sources(pooled)):
        await add_outbox(foreign_pool, payload=b"1")
        assert await until_read(kafka, "orders", 1) == [b"1"]
