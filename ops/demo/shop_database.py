"""The sample shop's database; `python -m ops.demo.shop_database` makes it ready (a set-up step of the stack)."""

import asyncio
import os
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from shared.postgres import producer

_ORDERS: Final = """
CREATE TABLE IF NOT EXISTS orders (
    order_no    TEXT PRIMARY KEY,
    customer_id BIGINT NOT NULL,
    status      TEXT NOT NULL,
    carrier     TEXT
)
"""


def shop_dsn(postgres_dsn: str) -> str:
    """The shop's database, on the same server as Ulak's and named after it: `ulak` has `ulak_shop`."""
    parts = urlsplit(postgres_dsn)
    return urlunsplit(parts._replace(path=f"/{parts.path.strip('/') or 'ulak'}_shop"))


async def prepare(postgres_dsn: str) -> None:
    """Create the shop's database, its orders table and the outbox that Ulak's relay reads. Safe to repeat."""
    dsn = shop_dsn(postgres_dsn)
    name = urlsplit(dsn).path.strip("/")
    server = await asyncpg.connect(postgres_dsn)
    try:
        if not await server.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await server.execute(f'CREATE DATABASE "{name}"')
    finally:
        await server.close()
    shop = await asyncpg.connect(dsn)
    try:
        await shop.execute(producer.ddl())
        await shop.execute(_ORDERS)
    finally:
        await shop.close()


if __name__ == "__main__":
    asyncio.run(prepare(os.environ["ULAK_POSTGRES_DSN"]))
