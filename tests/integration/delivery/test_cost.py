"""What an SMS cost stands in its row, so that cost per type is a query."""

import pytest

from shared.core.cost import Cost, Price
from shared.core.outcome import Accepted, Transient
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.providers.sms.twilio.client import TWILIO
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.world import ScriptedSender, make_world

pytestmark = pytest.mark.postgres


async def test_segments_and_price_of_each_delivery_are_recorded(pool: Pool, key_ring: KeyRing) -> None:
    costs = [Cost(2, Price(15_800, "USD")), Cost(1), None]
    sender = ScriptedSender(outcomes=[Accepted(f"SM{place}", cost) for place, cost in enumerate(costs)])
    world = make_world("sms-tx", pool, key_ring, sender=sender)
    seeded = sorted([await world.seeder.delivery() for _ in costs], key=lambda each: each.key)
    await world.work(*seeded)
    rows = [await world.seeder.row(each.key) for each in seeded]
    found = [(row["status"], row["segments"], row["price_micros"], row["price_currency"]) for row in rows]
    assert found == [("SENT", 2, 15_800, "USD"), ("SENT", 1, None, None), ("SENT", None, None, None)]


async def test_a_message_that_was_not_taken_cost_nothing(pool: Pool, key_ring: KeyRing) -> None:
    sender = ScriptedSender(outcomes=[Transient("full", not_processed=True)])
    world = make_world("sms-tx", pool, key_ring, sender=sender)
    seeded = await world.seeder.delivery()
    await world.work(seeded)
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["segments"], row["price_micros"]) == ("PENDING", None, None)


async def test_a_turkish_text_of_two_parts_at_the_country_s_price(
    pool: Pool, key_ring: KeyRing, simulator: Simulator
) -> None:
    """71 characters with a `ş` are UCS-2 at Twilio, two parts of 67 (S3); our count is the provider's."""
    async with TWILIO.open(simulator.twilio(prices="+90=0.0079 USD,*=1 USD")) as twilio:
        world = make_world("sms-tx", pool, key_ring, senders={"twilio": twilio})
        seeded = await world.seeder.delivery(content={"text": "ş" + "a" * 70})
        await world.work(seeded)
    row = await world.seeder.row(seeded.key)
    assert (row["segments"], row["price_micros"], row["price_currency"]) == (2, 15_800, "USD")
    (received,) = await simulator.accepted("twilio")
    assert received["content"]["numSegments"] == 2
