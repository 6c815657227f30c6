"""The sample shop: a service of its own, with its own database, that tells Ulak what happened through its outbox."""

from typing import Final

import asyncpg
from ulak_client import Event, enqueue_event_async

EVENT_SOURCE: Final = "/shop/orders"
ORDER_SHIPPED: Final = "com.example.shop.OrderShipped"


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
            return await enqueue_event_async(self._connection, event)
