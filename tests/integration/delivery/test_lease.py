"""Batches that outlast their lease, and replies that come too late or never: what each delivery ends as."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.relay.reaper import Reaper
from shared.core.ports import Sender
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.providers.email.sendgrid.client import SENDGRID
from shared.providers.push.apns.client import APNS
from shared.providers.registry import Provider
from shared.providers.sms.twilio.client import TWILIO
from shared.wire.channel import DEFAULT_CHANNELS, Promise
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.world import ScriptedSender, Seeded, World, first_to_last, make_world

pytestmark = pytest.mark.postgres


async def lease_runs_out(pool: Pool) -> None:
    """And the relay finds it."""
    past = datetime.now(UTC) - timedelta(seconds=60)
    await pool.execute("UPDATE ulak.leases SET lease_until = $1", past)
    await pool.execute("UPDATE ulak.deliveries SET lease_until = $1 WHERE claim_id IS NOT NULL", past)
    await Reaper(pool, DEFAULT_CHANNELS, grace_sec=0, service_version="0", clock=lambda: datetime.now(UTC)).round()


def again(seeded: Seeded) -> Seeded:
    return replace(seeded, hint=replace(seeded.hint, attempt=1))


@pytest.fixture
def slow(pool: Pool, key_ring: KeyRing) -> World:
    """The lane's worker whose provider takes its time."""
    return make_world("sms-tx", pool, key_ring, sender=ScriptedSender(gate=asyncio.Event()))


async def test_an_answer_after_the_lease_does_not_make_unknown_sent_again(pool: Pool, slow: World) -> None:
    seeded = await slow.seeder.delivery(promise=Promise.AT_MOST_ONCE)
    working = asyncio.create_task(slow.work(seeded))
    await slow.sender.entered.wait()
    await lease_runs_out(pool)
    assert (await slow.seeder.row(seeded.key))["status"] == "UNKNOWN"
    assert slow.sender.gate is not None
    slow.sender.gate.set()
    await working
    row = await slow.seeder.row(seeded.key)
    assert (row["status"], row["attempt"]) == ("UNKNOWN", 1)
    await slow.work(seeded, again(seeded))
    assert len(slow.sender.sent) == 1
    assert ("attempt", "accepted") in await slow.seeder.log(seeded.key)  # the late word is not lost


async def test_an_answer_after_the_lease_leaves_the_attempt_of_whoever_has_it_now(
    pool: Pool, key_ring: KeyRing, slow: World
) -> None:
    """At least once: the second worker sends it under the same reference; the first one's record changes nothing."""
    seeded = await slow.seeder.delivery(promise=Promise.AT_LEAST_ONCE)
    working = asyncio.create_task(slow.work(seeded))
    await slow.sender.entered.wait()
    await lease_runs_out(pool)
    row = await slow.seeder.row(seeded.key)
    assert (row["status"], row["attempt"]) == ("PENDING", 1)

    second = make_world("sms-tx", pool, key_ring, sender=ScriptedSender(gate=asyncio.Event()))
    resending = asyncio.create_task(second.work(again(seeded)))
    await second.sender.entered.wait()
    claim = (await slow.seeder.row(seeded.key))["claim_id"]
    assert slow.sender.gate is not None
    assert second.sender.gate is not None
    slow.sender.gate.set()
    await working
    row = await slow.seeder.row(seeded.key)
    assert (row["status"], row["claim_id"]) == ("SENDING", claim)
    second.sender.gate.set()
    await resending
    row = await slow.seeder.row(seeded.key)
    assert (row["status"], row["attempt"]) == ("SENT", 2)
    (first_sent,), (second_sent,) = slow.sender.sent, second.sender.sent
    assert first_sent.key.reference == second_sent.key.reference
    assert await slow.seeder.leases() == 0


@pytest.mark.parametrize("how", ["late", "lost", "dropped"])
@pytest.mark.parametrize("vendor", ["twilio", "sendgrid", "apns"])
async def test_a_reply_that_does_not_come_in_time_ends_by_promise(
    how: str, vendor: str, pool: Pool, key_ring: KeyRing, simulator: Simulator
) -> None:
    """Past the deadline, lost after acceptance, or the connection dropped before the call was read, which nobody can
    tell from the others: SMS ends UNKNOWN and is never sent again; e-mail and push are sent again, the same message.
    """
    faults: dict[str, dict[str, Any]] = {
        "late": {"delayMs": 30_000},
        "lost": {"drop": "afterAccept"},
        "dropped": {"drop": "beforeRead"},
    }
    lane_name, channel, promise = {
        "twilio": ("sms-tx", "SMS", Promise.AT_MOST_ONCE),
        "sendgrid": ("email-tx", "EMAIL", Promise.AT_LEAST_ONCE),
        "apns": ("push-tx", "PUSH", Promise.AT_LEAST_ONCE),
    }[vendor]
    vendors: dict[str, Provider[Any]] = {"twilio": TWILIO, "sendgrid": SENDGRID, "apns": APNS}
    settings = getattr(simulator, vendor)()
    lane = replace(DEFAULT_CHANNELS.lane(lane_name), send_deadline_sec=2.0)
    async with vendors[vendor].open(settings) as sender:
        senders: dict[str, Sender] = {vendor: sender}
        world = make_world(lane_name, pool, key_ring, senders=senders, order=first_to_last(vendor), lane=lane)
        seeded = await world.seeder.delivery(channel, promise=promise)
        await simulator.fault(vendor, times=1, **faults[how])
        await world.work(seeded)
        row = await world.seeder.row(seeded.key)
        if promise is Promise.AT_MOST_ONCE:
            assert (row["status"], row["reason"], row["attempt"]) == ("UNKNOWN", "ambiguous", 1)
        else:
            assert (row["status"], row["attempt"]) == ("PENDING", 1)
        await pool.execute("UPDATE ulak.deliveries SET next_attempt_at = now() WHERE status = 'PENDING'")
        await world.work(again(seeded))
    row = await world.seeder.row(seeded.key)
    accepted = await simulator.accepted(vendor)
    seen = 0 if how == "dropped" else 1
    if promise is Promise.AT_MOST_ONCE:
        assert (row["status"], row["attempt"], len(accepted)) == ("UNKNOWN", 1, seen)
    else:
        assert (row["status"], row["attempt"], len(accepted)) == ("SENT", 2, seen + 1)
        assert len({message["reference"] for message in accepted}) == 1
    assert await world.seeder.leases() == 0
