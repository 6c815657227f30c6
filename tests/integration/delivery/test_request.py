"""E-mail requests are kept while somebody needs them, and cost nothing where there are none."""

import re
from uuid import UUID

import pytest

from shared.core.lifecycle import REPAIRABLE, DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.core.sealing import Purpose
from shared.delivery.request import clear_requests
from shared.postgres.pool import Pool
from tests.integration.relay.rows import add_delivery, add_notification, add_request, kept

pytestmark = pytest.mark.postgres

S = DeliveryStatus
_NAME = re.compile("-- name: (.*)")


async def entered(pool: Pool, *recipients: tuple[DeliveryStatus, Reason | None]) -> UUID:
    """A message whose recipients stand so; nothing has cleared it yet."""
    notification = await add_notification(pool, state="DECIDED")
    for number, (status, reason) in enumerate(recipients):
        target = bytes([number]) * 32
        await add_delivery(pool, notification, channel="EMAIL", target_key=target, status=status, reason=reason)
    await add_request(pool, notification)
    return notification


async def clear(pool: Pool, *notifications: UUID, channel: str = "EMAIL") -> list[str]:
    """The names of the statements it took; what the driver asks about types on its own is not among them."""
    queries: list[str] = []
    async with pool.acquire() as connection, connection.transaction():
        with connection.query_logger(lambda record: queries.append(record.query)):
            await clear_requests(connection, [DeliveryKey(each, channel, bytes(32)) for each in notifications])
    return [name for query in queries for name in _NAME.findall(query)]


@pytest.mark.parametrize(
    ("status", "reason", "needed"),
    [
        *((status, None, True) for status in (S.PENDING, S.SENDING)),
        (S.UNKNOWN, Reason.AMBIGUOUS, True),
        (S.UNKNOWN, Reason.CLOSED, False),
        *((status, None, False) for status in (S.SENT, S.DELIVERED)),
        *((S.SKIPPED, reason, False) for reason in (Reason.CANCELLED, Reason.EXPIRED, Reason.SUPPRESSED)),
        *((S.FAILED, reason, True) for reason in (*sorted(REPAIRABLE), Reason.UNSEALABLE)),
        *((S.FAILED, reason, False) for reason in (Reason.PERMANENT, Reason.TARGET_GONE, Reason.BOUNCED)),
    ],
)
async def test_it_is_kept_while_one_recipient_needs_it(
    pool: Pool, status: DeliveryStatus, reason: Reason | None, needed: bool
) -> None:
    message = await entered(pool, (S.SENT, None), (status, reason))
    await clear(pool, message)
    assert await kept(pool, message) is needed


async def test_each_message_is_judged_by_its_own_recipients(pool: Pool) -> None:
    over, waiting = await entered(pool, (S.SENT, None)), await entered(pool, (S.SENT, None), (S.PENDING, None))
    other = await entered(pool, (S.SENT, None))
    await clear(pool, waiting, over)
    assert [await kept(pool, each) for each in (over, waiting, other)] == [False, True, True]


async def test_what_is_no_request_stays_and_costs_a_look_at_most(pool: Pool) -> None:
    rendered = await add_notification(pool, state="DECIDED")
    await add_delivery(pool, rendered, channel="EMAIL", status=S.SENT)
    await add_request(pool, rendered, purpose=Purpose.CONTENT)
    assert await clear(pool, rendered) == ["lock_requests"]
    assert await kept(pool, rendered)
    assert await clear(pool, rendered, channel="PUSH") == []
    assert await clear(pool) == []
