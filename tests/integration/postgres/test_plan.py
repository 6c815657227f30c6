"""A batch's bounds prune partitions at run time, with the generic plan that prepared statements end up with."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

import shared.postgres.query
from shared.core.identifier import lowest_id_at
from shared.postgres.partition import ensure_partitions, parse_name
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries

pytestmark = pytest.mark.postgres

FILES = sorted(path.stem for path in (Path(shared.postgres.query.__file__).parent / "queries").glob("*.sql"))
BOUNDED_BY_A_JOIN = {  # pruned as the nested loop runs, which EXPLAIN hides
    ("ingest", "otp_request"),  # one id out of notification_dedup
    ("dead_letter", "letters"),  # an id of each letter of a page
    ("dead_letter", "find"),
}

UPDATE = """
UPDATE ulak.deliveries SET status = 'SENDING'
 WHERE notification_id = ANY($1::uuid[]) {bounds} AND status = 'PENDING' AND expires_at > now()
RETURNING notification_id"""
SELECT = "SELECT state FROM ulak.notifications WHERE id = ANY($1::uuid[]) {bounds}"


@pytest.mark.parametrize(
    ("statement", "column", "table"), [(UPDATE, "notification_id", "deliveries"), (SELECT, "id", "notifications")]
)
async def test_bounds_leave_one_partition(pool: Pool, statement: str, column: str, table: str) -> None:
    async with pool.acquire() as connection:
        await ensure_partitions(connection, date(2020, 3, 1), ahead=30)
        bounded = statement.format(bounds=f"AND {column} BETWEEN $2 AND $3")
        assert await _scanned(connection, bounded, "uuid[], uuid, uuid") == {f"{table}_20200315"}
        unbounded = await _scanned(connection, statement.format(bounds=""), "uuid[]")
        assert len(unbounded) > 1, "without bounds this very plan reads more: the test would notice their loss"


@pytest.mark.parametrize("file", FILES)
async def test_every_statement_bounds_the_hot_tables_by_its_parameters(pool: Pool, file: str) -> None:
    """With NULL for every parameter a bound leaves no partition at all; one that is read here would always be read."""
    async with pool.acquire() as connection:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        for name, text in load_queries(file).items():
            types = [parameter.name for parameter in (await connection.prepare(text)).get_parameters()]
            read = await _explained(connection, text, ", ".join(types), ", ".join("NULL" for _ in types))
            hot = {table for table in read if parse_name(table) is not None}
            assert not hot or (file, name) in BOUNDED_BY_A_JOIN, f"{file}.sql: {name} reads {sorted(hot)}"


async def _scanned(connection: Connection, statement: str, types: str) -> set[str]:
    """Names of the partitions that the generic plan reads for two ids of 2020-03-15."""
    low = lowest_id_at(datetime(2020, 3, 15, 8, tzinfo=UTC))
    high = lowest_id_at(datetime(2020, 3, 15, 9, tzinfo=UTC))
    arguments = f"ARRAY['{low}', '{high}']::uuid[]" + (f", '{low}', '{high}'" if "$3" in statement else "")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    return await _explained(connection, statement, types, arguments)


async def _explained(connection: Connection, statement: str, types: str, arguments: str) -> set[str]:
    await connection.execute(f"PREPARE batch {f'({types})' if types else ''} AS {statement}")
    [row] = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE batch {f'({arguments})' if arguments else ''}")
    await connection.execute("DEALLOCATE batch")
    return set(_relations(orjson.loads(row[0])))


def _relations(node: Any) -> list[str]:
    """Names of the relations that are scanned anywhere below a node of EXPLAIN's JSON."""
    if isinstance(node, list):
        return [name for entry in node for name in _relations(entry)]
    if not isinstance(node, dict):
        return []
    found = _relations(list(node.values()))
    if str(node.get("Node Type", "")).endswith("Scan") and "Relation Name" in node:
        found.append(node["Relation Name"])
    return found
