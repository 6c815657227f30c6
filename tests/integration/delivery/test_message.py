"""Messages with several recipients: one hint, one mail, an outcome each; what each crash, wait and refusal leads to."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from services.relay.sweep import Sweep
from shared.core.address import target_key
from shared.core.consent import Line, Source
from shared.core.identifier import NOTIFICATION, new_id, public_id
from shared.core.outcome import Permanent, ProviderDown, Scope, Throttled
from shared.core.sealing import KeyRing
from shared.kafka.error import PublishError
from shared.postgres.consent import append
from shared.postgres.pool import Pool
from shared.redis_store.token_bucket import Grant, Quota
from shared.wire.channel import DEFAULT_CHANNELS
from tests.integration.delivery.mailing import ADA, BEN, CEM, EVERYONE, GREYLISTED, NO_SUCH_USER, Mailing, make_mailing
from tests.integration.ledger.world import request

pytestmark = pytest.mark.postgres


@dataclass
class CountingBuckets:
    """Grants at most `at_once` tokens a time and counts what is taken."""

    at_once: int = 1_000
    taken: int = 0
    refunded: list[int] = field(default_factory=list)

    async def take(self, _quota: Quota, wanted: int, *, critical: bool) -> Grant:
        granted = min(wanted, self.at_once)
        self.taken += granted
        return Grant(granted, 0.0)

    async def refund(self, _quota: Quota, count: int, *, critical: bool) -> None:
        self.refunded.append(count)

    async def drain(self, account: str, seconds: float, *, critical: bool) -> None:
        raise NotImplementedError(account)


def paced(pool: Pool, ring: KeyRing, application: int, buckets: CountingBuckets) -> Mailing:
    return make_mailing(pool, ring, application, buckets=buckets, quotas={"smtp": Quota("smtp", 1_000.0)})


# ------------------------------------------------------------ together


async def test_one_hint_sends_one_mail_to_all(mailing: Mailing) -> None:
    message = await mailing.enter(f"Ada <{ADA}>", BEN, CEM)
    assert await mailing.work(message) == []
    [mail] = mailing.sender.mails
    assert mail.recipients == EVERYONE
    assert mail.content["subject"] == "Invoice R-7"
    assert mail.envelope is not None
    assert mail.envelope.message_reference == public_id(NOTIFICATION, message.key.notification_id)
    assert [str(mailbox) for mailbox in mail.envelope.to] == [f'"Ada" <{ADA}>', BEN, CEM]
    assert await mailing.statuses(message) == dict.fromkeys(EVERYONE, ("SENT", None, 1))
    assert await mailing.told(message) == dict.fromkeys(((address, "SENT") for address in EVERYONE), 1)
    assert mailing.world.hints() == []
    assert await mailing.world.seeder.leases() == 0


async def test_hints_for_several_recipients_are_one(mailing: Mailing, key_ring: KeyRing) -> None:
    """Of several that met in one poll and knew nothing of each other."""
    message = await mailing.enter(*EVERYONE)
    hints = [
        replace(message, hint=replace(message.hint, target_key=target_key(key_ring, "EMAIL", address)))
        for address in EVERYONE
    ]
    await mailing.work(*hints)
    assert mailing.sender.reached == [EVERYONE]


async def test_all_hints_lost_the_sweep_brings_one_and_it_sends_one_mail(mailing: Mailing, pool: Pool) -> None:
    message = await mailing.enter(*EVERYONE)
    sweep = Sweep(
        pool,
        mailing.world.producer,
        DEFAULT_CHANNELS,
        first_horizons=(600,),
        repeat_sec=21_600,
        page=10,
        pause_sec=0.0,
        clock=lambda: datetime.now(UTC) + timedelta(minutes=11),
    )
    await sweep.round()
    await mailing.work(mailing.owed(message))
    assert mailing.sender.reached == [EVERYONE]
    assert mailing.world.hints() == []


async def test_a_message_costs_one_token_and_none_is_cut(pool: Pool, key_ring: KeyRing, application: int) -> None:
    buckets = CountingBuckets(at_once=1)
    mailing = paced(pool, key_ring, application, buckets)
    messages = [await mailing.enter(*EVERYONE) for _ in range(7)]
    await mailing.work(*messages)
    assert mailing.sender.reached == [EVERYONE] * 7
    assert buckets.taken == 7


async def test_parts_of_a_claim_cut_no_message(mailing: Mailing) -> None:
    """Each part is a call of the sender's."""
    messages = [await mailing.enter(*EVERYONE) for _ in range(70)]
    await mailing.work(*messages)
    assert mailing.sender.reached == [EVERYONE] * 70
    assert len(mailing.sender.batches) > 2
    assert all(count % 3 == 0 for count in mailing.sender.batches)


async def test_a_token_not_needed_is_given_back_once(pool: Pool, key_ring: KeyRing, application: int) -> None:
    buckets = CountingBuckets()
    mailing = paced(pool, key_ring, application, buckets)
    message = await mailing.enter(*EVERYONE)
    mailing.sender.gate = asyncio.Event()
    working = asyncio.create_task(mailing.work(message))
    await mailing.sender.entered.wait()
    mailing.world.stopping[0] = True
    mailing.sender.gate.set()
    await working
    assert await mailing.statuses(message) == dict.fromkeys(EVERYONE, ("PENDING", None, 0))
    assert buckets.refunded == [1]
    assert mailing.owed(message).hint.not_before is None


# ------------------------------------------------------------ outcomes


async def test_each_recipient_has_their_own_outcome_and_only_the_others_are_sent_to_again(
    mailing: Mailing, pool: Pool
) -> None:
    mailing.sender.answers = {BEN: [GREYLISTED], CEM: [NO_SUCH_USER]}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    assert await mailing.statuses(message) == {
        ADA: ("SENT", None, 1),
        BEN: ("PENDING", None, 1),
        CEM: ("FAILED", "target_gone", 1),
    }
    assert await mailing.told(message) == {(ADA, "SENT"): 1, (CEM, "FAILED"): 1}
    assert await pool.fetchval("SELECT count(*) FROM ulak.suppressions") == 1

    retry = mailing.owed(message)
    assert retry.hint.not_before is not None
    mailing.pass_by(15)
    await mailing.work(retry)
    assert mailing.sender.reached == [EVERYONE, {BEN}]
    first, second = (mail.envelope for mail in mailing.sender.mails)
    assert first is not None
    assert second is not None
    assert first.message_reference == second.message_reference
    assert first.to == second.to, "every reader sees the same recipients"
    assert await mailing.told(message) == {(ADA, "SENT"): 1, (CEM, "FAILED"): 1, (BEN, "SENT"): 1}


async def test_those_who_failed_together_are_tried_again_together(mailing: Mailing) -> None:
    mailing.sender.answers = {BEN: [GREYLISTED], CEM: [GREYLISTED]}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    retry = mailing.owed(message)
    mailing.pass_by(15)
    await mailing.work(retry)
    assert mailing.sender.reached == [EVERYONE, {BEN, CEM}]


async def test_different_waits_take_one_hint_at_a_time(mailing: Mailing) -> None:
    mailing.sender.answers = {
        ADA: [Throttled(Scope.DOMAIN, "421 slow down", 300.0)],
        BEN: [GREYLISTED, GREYLISTED],
        CEM: [GREYLISTED],
    }
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    mailing.pass_by(15)
    second = mailing.owed(message)
    await mailing.work(second)
    mailing.pass_by(60)
    third = mailing.owed(message)
    await mailing.work(third)
    mailing.pass_by(300)
    await mailing.work(mailing.owed(message))
    assert mailing.sender.reached == [EVERYONE, {BEN, CEM}, {BEN}, {ADA}]
    assert {status for status, _, _ in (await mailing.statuses(message)).values()} == {"SENT"}
    assert mailing.world.hints() == []


async def test_a_provider_that_is_down_burns_no_attempt_of_anyone(mailing: Mailing) -> None:
    mailing.sender.answers = {address: [ProviderDown("535 refused")] for address in EVERYONE}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    assert await mailing.statuses(message) == dict.fromkeys(EVERYONE, ("PENDING", None, 0))
    assert mailing.owed(message).hint.attempt == 0


async def test_a_permanent_failure_is_one_dead_letter_and_an_entry_each(mailing: Mailing, pool: Pool) -> None:
    mailing.sender.answers = {address: [Permanent("554 not this")] for address in EVERYONE}
    message = await mailing.enter(*EVERYONE)
    assert set(await mailing.work(message)) == {(0, "permanent")}
    assert await pool.fetchval("SELECT count(*) FROM ulak.dead_letters WHERE state = 'open'") == 3
    assert {status for status, _, _ in (await mailing.statuses(message)).values()} == {"FAILED"}


# ------------------------------------------------------------ again, at once, in between


async def test_a_hint_that_comes_again_tells_again_and_sends_nothing(mailing: Mailing) -> None:
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    first = [record.value or b"" for record in mailing.world.producer.on("delivery-events")]
    await mailing.work(message)
    again = [record.value or b"" for record in mailing.world.producer.on("delivery-events")][3:]
    assert sorted(first) == sorted(again)
    assert mailing.sender.reached == [EVERYONE]


async def test_died_between_the_record_and_the_flush_K10(mailing: Mailing) -> None:
    """What was recorded is told by the hint that comes again: events, and one hint for who waits."""
    mailing.sender.answers = {BEN: [GREYLISTED]}
    message = await mailing.enter(*EVERYONE)
    mailing.world.producer.fail_next("broker gone")
    with pytest.raises(PublishError):
        await mailing.work(message)
    assert mailing.world.events() == []
    await mailing.work(message)
    assert await mailing.told(message) == {(ADA, "SENT"): 1, (CEM, "SENT"): 1}
    mailing.pass_by(15)
    await mailing.work(mailing.owed(message))
    assert mailing.sender.reached == [EVERYONE, {BEN}]


async def test_died_before_the_flush_while_another_waited_for_its_lease(
    mailing: Mailing, pool: Pool, key_ring: KeyRing, application: int
) -> None:
    """The other's hint comes when the lease is over, finds all recorded, and nobody else left to tell it."""
    other = make_mailing(pool, key_ring, application)
    message = await mailing.enter(*EVERYONE)
    mailing.sender.answers = {BEN: [GREYLISTED]}
    mailing.sender.gate = asyncio.Event()
    first = asyncio.create_task(mailing.work(message))
    await mailing.sender.entered.wait()
    await other.work(message)
    assert other.sender.mails == []
    mailing.world.producer.fail_next("broker gone")
    mailing.sender.gate.set()
    with pytest.raises(PublishError):
        await first
    other.pass_by(35)
    await other.work(other.owed(message))
    assert await other.told(message) == {(ADA, "SENT"): 1, (CEM, "SENT"): 1, (BEN, "SENT"): 1}
    assert other.sender.reached == [{BEN}]


async def test_two_workers_with_the_same_hint_send_once(
    mailing: Mailing, pool: Pool, key_ring: KeyRing, application: int
) -> None:
    other = make_mailing(pool, key_ring, application)
    messages = [await mailing.enter(*EVERYONE) for _ in range(10)]
    await asyncio.gather(mailing.work(*messages), other.work(*reversed(messages)))
    assert mailing.sender.reached + other.sender.reached == [EVERYONE] * 10
    for message in messages:
        assert await mailing.statuses(message) == dict.fromkeys(EVERYONE, ("SENT", None, 1))


async def test_a_lease_that_ran_out_sends_again_under_the_same_reference(mailing: Mailing, pool: Pool) -> None:
    """Killed after the provider took it: the reaper gives it back, and a receiver can tell the double."""
    message = await mailing.enter(*EVERYONE)
    mailing.sender.gate = asyncio.Event()
    lost = asyncio.create_task(mailing.work(message))
    await mailing.sender.entered.wait()
    lost.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lost
    mailing.sender.gate.set()
    await pool.execute(
        "UPDATE ulak.deliveries SET status = 'PENDING', attempt = 1, claim_id = NULL, lease_until = NULL "
        "WHERE notification_id = $1",
        message.key.notification_id,
    )
    await mailing.work(replace(message, hint=replace(message.hint, attempt=1)))
    [mail] = mailing.sender.mails
    assert mail.recipients == EVERYONE
    assert mail.envelope is not None
    assert mail.envelope.message_reference == public_id(NOTIFICATION, message.key.notification_id)


async def test_cancelled_between_attempts(mailing: Mailing, pool: Pool) -> None:
    mailing.sender.answers = {BEN: [GREYLISTED], CEM: [GREYLISTED]}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    await pool.execute("UPDATE ulak.notifications SET state = 'CANCELLED' WHERE id = $1", message.key.notification_id)
    mailing.pass_by(15)
    await mailing.work(mailing.owed(message))
    assert mailing.sender.reached == [EVERYONE]
    assert await mailing.statuses(message) == {
        ADA: ("SENT", None, 1),
        BEN: ("SKIPPED", "cancelled", 1),
        CEM: ("SKIPPED", "cancelled", 1),
    }
    assert not await mailing.kept(message)


async def test_expired_between_attempts(mailing: Mailing, pool: Pool) -> None:
    mailing.sender.answers = {BEN: [GREYLISTED]}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    mailing.pass_by(86_401)
    await mailing.work(mailing.owed(message))
    assert (await mailing.statuses(message))[BEN] == ("SKIPPED", "expired", 1)
    assert mailing.sender.reached == [EVERYONE]


async def test_suppressed_between_attempts_leaves_the_others(mailing: Mailing, pool: Pool, key_ring: KeyRing) -> None:
    mailing.sender.answers = {BEN: [GREYLISTED], CEM: [GREYLISTED]}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason) VALUES ('EMAIL', $1, 'complaint')",
        target_key(key_ring, "EMAIL", CEM),
    )
    mailing.pass_by(15)
    await mailing.work(mailing.owed(message))
    assert mailing.sender.reached == [EVERYONE, {BEN}]
    assert (await mailing.statuses(message))[CEM] == ("SKIPPED", "suppressed", 1)


async def test_stop_before_the_claim_hands_the_message_back(mailing: Mailing) -> None:
    message = await mailing.enter(*EVERYONE)
    mailing.world.stopping[0] = True
    await mailing.work(message)
    back = mailing.owed(message)
    assert back.hint.not_before is None
    mailing.world.stopping[0] = False
    await mailing.work(back)
    assert mailing.sender.reached == [EVERYONE]


async def test_marketing_waits_for_the_morning_and_goes_to_both_in_one_mail(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    """23:00 in Istanbul, the default zone: the ledger knows that there are hours, the worker which."""
    mailing = make_mailing(pool, key_ring, application, lane_name="email-bulk")
    now = datetime.now(UTC)
    async with pool.acquire() as connection, connection.transaction():
        keys = [target_key(key_ring, "EMAIL", address) for address in (ADA, BEN)]
        await append(
            connection,
            key_ring,
            [Line(new_id(), key, "EMAIL", granted=True, at=now, source=Source.HS_WEB) for key in keys],
        )
    sale = await mailing.enter(asked=request(ADA, BEN, template="WINTER_SALE"), expires_at=now + timedelta(days=10))
    night = now.replace(hour=20, minute=0, second=0, microsecond=0) + timedelta(days=1)
    mailing.pass_by((night - now).total_seconds())
    await mailing.work(sale)
    rows = (await mailing.rows(sale)).values()
    assert [(row["status"], row["attempt"]) for row in rows] == [("PENDING", 0)] * 2
    morning = night + timedelta(hours=10)
    (due,) = {row["next_attempt_at"] for row in rows}
    assert morning <= due < morning + timedelta(minutes=15)
    assert mailing.sender.reached == []

    mailing.pass_by((due - night).total_seconds())
    await mailing.work(sale)
    assert mailing.sender.reached == [{ADA, BEN}]
