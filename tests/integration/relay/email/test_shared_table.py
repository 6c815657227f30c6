"""Several dispatchers on one table: they share the work, and nobody gets a mail twice."""

import asyncio
from collections import Counter

import pytest

from shared.wire.channel import MessageClass
from tests.integration.relay.email.world import MailServer, World, until

pytestmark = pytest.mark.postgres

ROWS = 10_000


async def add_rows(world: World, count: int, *, message_class: MessageClass = MessageClass.TX) -> None:
    await world.source.execute(
        "INSERT INTO ulak.email_messages (model, message_class, template, recipients, parameters) "
        "SELECT 'A', $1, 'ORDER_SHIPPED', convert_to('{\"to\": [\"user' || n || '@example.com\"]}', 'UTF8'), "
        "convert_to('{\"orderNo\": \"' || n || '\"}', 'UTF8') FROM generate_series(1, $2::int) AS n",
        int(message_class),
        count,
    )


@pytest.mark.timeout(170)
async def test_two_dispatchers_send_ten_thousand_rows_once_each(world: World) -> None:
    await add_rows(world, ROWS)
    servers = [MailServer(), MailServer()]

    async def drain(server: MailServer) -> None:
        dispatcher = world.dispatcher(sender=server)
        while (await world.statuses()).get("PENDING"):
            await dispatcher.round()

    await asyncio.gather(*(drain(server) for server in servers))
    assert await world.statuses() == {"SENT": ROWS}
    mails = [mail for server in servers for mail in server.mails]
    recipients = Counter(address for mail in mails for address in mail.recipients)
    assert recipients == {f"user{number}@example.com": 1 for number in range(1, ROWS + 1)}
    assert len({mail.reference for mail in mails}) == ROWS
    assert all(len(server.mails) > ROWS // 10 for server in servers), "they share the work"
    assert await world.source.fetchval("SELECT max(attempt_count) FROM ulak.email_messages") == 1


async def test_a_critical_mail_overtakes_a_backlog_of_every_other_class(world: World) -> None:
    """Classes are claimed apart: each has a loop of its own, and nothing of one is asked for by another."""
    for message_class in (MessageClass.TX, MessageClass.BULK, MessageClass.LOW):
        await add_rows(world, 500, message_class=message_class)
    backlog = [
        asyncio.create_task(world.dispatcher(message_class, sender=MailServer()).round())
        for message_class in (MessageClass.TX, MessageClass.BULK, MessageClass.LOW)
    ]
    urgent = await world.enqueue("ayse@example.com", template="PASSWORD_CHANGED", priority="critical")
    await world.dispatcher(MessageClass.CRITICAL).round()
    assert (await world.row(urgent))["status"] == "SENT"
    assert (await world.statuses()).get("PENDING", 0) > 0, "long before the backlog is through"
    await asyncio.gather(*backlog)
    assert await world.statuses() == {"SENT": 1501}


async def test_under_a_long_transaction_a_row_that_becomes_visible_late_is_found(world: World) -> None:
    """O1 and O6: reading begins where it ended, and now and then at the oldest row again."""
    dispatcher = world.dispatcher()
    async with world.source.acquire() as slow:
        late = slow.transaction()
        await late.start()
        row_id = await slow.fetchval(
            "SELECT ulak.enqueue_email(ARRAY['late@example.com'], 'ORDER_SHIPPED', $1, model => 'A')", {"orderNo": "1"}
        )
        await add_rows(world, 100)
        await dispatcher.round()
        assert await world.statuses() == {"SENT": 100}
        await late.commit()

    async def found() -> bool:
        await dispatcher.round()
        status: str = (await world.row(row_id))["status"]
        return status == "SENT"

    await until(found, "the row that was committed late")
