"""What the benches of the whole stack send to it: the sample shop's orders and login codes, accounted for."""

from typing import Final
from uuid import uuid4

import asyncpg

from bench.desk import Desk
from bench.harness import WrongResultError, until

_USER: Final = 7  # of ops/demo/sample
_DELIVERIES: Final = 3  # that user's two devices and e-mail address
_BATCH: Final = 500
_UNSETTLED: Final = """
SELECT (SELECT count(*) FROM ulak.notifications WHERE state NOT IN ('DECIDED', 'CANCELLED'))
     + (SELECT count(*) FROM ulak.deliveries WHERE status NOT IN ('SENT', 'DELIVERED'))
"""


async def orders_delivered(desk: Desk, run: str, count: int) -> None:
    """Send orders by batch and return when each has reached both devices and the mailbox.

    Raises WrongResultError if a call was doubled or something did not settle; nothing else may use the stack.
    """
    before = await desk.calls()
    async with desk.client("ULAK_INGEST_URL") as ingest:
        for start in range(0, count, _BATCH):
            numbers = range(start, min(start + _BATCH, count))
            reply = await ingest.post(
                "/internal/v1/notifications/batch", json={"items": [_order(run, number) for number in numbers]}
            )
            statuses = {item["status"] for item in reply.raise_for_status().json()["results"]}
            if statuses != {202}:
                raise WrongResultError(f"orders were answered with {sorted(statuses)}")
    await settled(desk, before.accepted + count * _DELIVERIES)


async def codes_delivered(desk: Desk, count: int) -> None:
    """Send login codes one after another, each to a phone of its own, and return when each was sent once."""
    before = await desk.calls()
    async with desk.client("ULAK_OTP_URL") as ingest:
        for number in range(count):
            code = {
                "requestId": str(uuid4()),
                "phone": f"+90531{number:07d}",
                "code": "482913",
                "expiresInSeconds": 180,
            }
            (await ingest.post("/internal/v1/otp-messages", json=code)).raise_for_status()
    await settled(desk, before.accepted + count)


async def settled(desk: Desk, accepted: int) -> None:
    """Return when the providers have accepted so many calls and every row says so; WrongResultError otherwise."""
    connection = await asyncpg.connect(desk.settings["ULAK_POSTGRES_DSN"])
    try:

        async def done() -> bool:
            return (await desk.calls()).accepted >= accepted and not await connection.fetchval(_UNSETTLED)

        await until(done, timeout_sec=120, what="every delivery settling")
    finally:
        await connection.close()
    calls = await desk.calls()
    if calls.accepted != accepted or calls.doubled:
        raise WrongResultError(f"{calls.accepted} calls were accepted, not {accepted}; {calls.doubled} were doubles")


def _order(run: str, number: int) -> dict[str, object]:
    return {
        "eventId": f"{run}-{number}",
        "userId": _USER,
        "type": "ORDER_SHIPPED",
        "params": {
            "orderNo": str(number),
            "carrier": "Kargo A",
            "trackingUrl": f"https://kargo.example/takip/{number}",
        },
    }
