"""The sample shop: a service of its own, with its own database, that tells Ulak what happened through its outbox.

`python -m ops.demo.shop` prepares its database (a set-up step of the embedded stack, idempotent).
"""

import asyncio
import os
from importlib.resources import files
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from ulak_client import Event, enqueue_event

DATABASE: Final = "shop"
EVENT_SOURCE: Final = "/shop/orders"
ORDER_SHIPPED: Final = "com.example.shop.OrderShipped"

_ORDERS: Final = """
CREATE TABLE IF NOT EXISTS orders (
    order_no    TEXT PRIMARY KEY,
    customer_id BIGINT NOT NULL,
    status      TEXT NOT NULL,
    carrier     TEXT
)
"""


def shop_dsn(postgres_dsn: str) -> str:
    """The shop's database on the same server as Ulak's."""
    return urlunsplit(urlsplit(postgres_dsn)._replace(path=f"/{DATABASE}"))


async def prepare(postgres_dsn: str) -> None:
    """Create the shop's database, its orders table and the outbox that Ulak's relay reads. Safe to repeat."""
    server = await asyncpg.connect(postgres_dsn)
    try:
        if not await server.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
            await server.execute(f'CREATE DATABASE "{DATABASE}"')
    finally:
        await server.close()
    shop = await asyncpg.connect(shop_dsn(postgres_dsn))
    try:
        await shop.execute(files("shared.postgres").joinpath("outbox.sql").read_text())
        await shop.execute(_ORDERS)
    finally:
        await shop.close()


class Shop:
    """What a service of the shop does: change its own rows and say so, in one transaction."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def ship(self, *, order_no: str, customer_id: int, carrier: str, key: str | None = None) -> str:
        """Mark an order shipped and enqueue `OrderShipped` in the same transaction; returns the event's id.

        Events of one key are on one partition, in order of commit; the key is the order's number by default.
        """
        event = Event(
            id=f"order-{order_no}-SHIPPED",
            source=EVENT_SOURCE,
            type=ORDER_SHIPPED,
            data={
                "orderNo": order_no,
                "customerId": customer_id,
                "carrier": carrier,
                "trackingUrl": f"https://kargo.example/takip/{order_no}",
            },
            key=key or order_no,
        )
        async with self._connection.transaction():
            await self._connection.execute(
                """INSERT INTO orders (order_no, customer_id, status, carrier) VALUES ($1, $2, 'SHIPPED', $3)
                   ON CONFLICT (order_no) DO UPDATE SET status = 'SHIPPED', carrier = excluded.carrier""",
                order_no,
                customer_id,
                carrier,
            )
            return await enqueue_event(self._connection, event)


if __name__ == "__main__":
    asyncio.run(prepare(os.environ["ULAK_POSTGRES_DSN"]))
