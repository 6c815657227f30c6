"""What the schema itself promises: ids made in SQL, and a service's start check."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.core.identifier import created_at
from shared.postgres.errors import PartitionMissingError, SchemaOutdatedError
from shared.postgres.pool import Pool
from shared.postgres.schema import require_schema

pytestmark = pytest.mark.postgres


async def test_uuidv7_in_sql_is_one_of_rfc_9562(pool: Pool) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    rows = await pool.fetch(
        "SELECT ulak.uuidv7() AS id, clock_timestamp() AS moment FROM generate_series(1, 1000) AS n"
    )
    after = datetime.now(UTC)
    ids = [row["id"] for row in rows]
    assert {(value.version, value.variant) for value in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 1000
    instants = [created_at(value) for value in ids]
    assert instants == sorted(instants)
    assert before <= instants[0]
    assert instants[-1] <= after
    for row in rows:  # never ahead of the clock, or an id made just before midnight would belong to tomorrow
        assert created_at(row["id"]) <= row["moment"]


async def test_uuidv7_of_later_milliseconds_sort_later_in_sql(pool: Pool) -> None:
    in_order = await pool.fetchval(
        """WITH made AS MATERIALIZED (
               SELECT n, ulak.uuidv7() AS id, pg_sleep(0.002) FROM generate_series(1, 50) AS n)
           SELECT array_agg(n ORDER BY id) = array_agg(n ORDER BY n) FROM made"""
    )
    assert in_order is True


async def test_require_schema(pool: Pool, now: datetime) -> None:
    await require_schema(pool, now)
    with pytest.raises(PartitionMissingError, match="ulak db partitions"):
        await require_schema(pool, now + timedelta(days=60))
    await pool.execute("DROP TABLE ulak.alembic_version")
    with pytest.raises(SchemaOutdatedError, match="ulak db migrate"):
        await require_schema(pool, now)
