"""Who holds a row, for how long, at which pace, and what a stop leaves (seed 000 sections 5 and 6)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.relay.email.store import EmailStore
from services.relay.scan import OLDEST
from shared.core.outcome import (
    Scope,
    Throttled,
)
from shared.redis_store.token_bucket import Quota
from shared.runtime import metrics
from shared.wire.channel import MessageClass
from tests.integration.relay.email.world import AYSE, BORA, CEM, MailServer, World, counted

pytestmark = pytest.mark.postgres


# ---------------------------------------------------------------- claims


async def test_only_due_rows_of_model_a_and_of_the_class_are_claimed(world: World) -> None:
    now = datetime.now(UTC)
    mine = await world.enqueue(AYSE)
    later = await world.enqueue(AYSE)
    await world.update(later, next_attempt_at=now + timedelta(minutes=1))
    await world.enqueue(AYSE, model="B")
    await world.enqueue(AYSE, priority="bulk")
    claim = await EmailStore(world.source).claim(MessageClass.TX, floor=OLDEST, limit=20, lease_sec=120)
    assert [row.id for row in claim.rows] == [mine]
    row = await world.row(mine)
    assert (row["status"], row["claim_id"]) == ("SENDING", claim.id)
    assert row["locked_at"] is not None
    assert timedelta(seconds=119) < row["lease_until"] - now < timedelta(seconds=125)


async def test_the_longest_waiting_are_claimed_first_and_no_more_than_a_batch(world: World) -> None:
    ids = [await world.enqueue(AYSE) for _ in range(5)]
    now = datetime.now(UTC)
    for age, row_id in enumerate(ids):
        await world.update(row_id, next_attempt_at=now - timedelta(minutes=1 + age))
    claim = await EmailStore(world.source).claim(MessageClass.TX, floor=OLDEST, limit=2, lease_sec=120)
    assert {row.id for row in claim.rows} == {ids[4], ids[3]}


async def test_a_claim_does_not_wait_for_rows_that_another_holds(world: World) -> None:
    held, free = await world.enqueue(AYSE), await world.enqueue(BORA)
    async with world.source.acquire() as other, other.transaction():
        await other.execute("SELECT FROM ulak.email_messages WHERE id = $1 FOR UPDATE", held)
        async with asyncio.timeout(60):
            claim = await EmailStore(world.source).claim(MessageClass.TX, floor=OLDEST, limit=20, lease_sec=120)
    assert [row.id for row in claim.rows] == [free]


async def test_an_outcome_for_a_row_that_another_has_claimed_meanwhile_is_not_written(world: World) -> None:
    """The lease ran out during the send; the other relay's word counts, and the loss is counted."""
    row_id = await world.enqueue(AYSE)
    other = "0194f0e4-7b1f-7c3a-9d2e-6f5a4b3c2d1e"

    async def taken_over() -> None:
        await world.source.execute("UPDATE ulak.email_messages SET claim_id = $2 WHERE id = $1", row_id, other)

    world.server.before = taken_over
    before = counted(metrics.EMAIL_CLAIMS_LOST, "shop")
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], str(row["claim_id"]), row["outcomes"]) == ("SENDING", other, {})
    assert counted(metrics.EMAIL_CLAIMS_LOST, "shop") == before + 1


async def test_no_connection_is_held_while_a_mail_is_on_the_wire(world: World) -> None:
    await world.enqueue(AYSE)
    idle: list[bool] = []

    async def look() -> None:
        idle.append(all(pool.get_idle_size() == pool.get_size() for pool in (world.own, world.source)))

    world.server.before = look
    await world.drain()
    assert idle == [True]


async def test_a_claim_whose_lease_is_nearly_over_is_given_back_unsent(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    assert await world.dispatcher(lease_sec=1.0, send_deadline_sec=20.0).round() is False
    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"], row["claim_id"]) == ("PENDING", 0, None)
    assert not row["sealed"], "nothing was tried on it"
    assert world.server.mails == []


async def test_when_facts_cannot_be_had_the_claim_is_given_back(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    await world.own.execute("ALTER TABLE ulak.suppressions RENAME TO elsewhere")
    with pytest.raises(Exception, match="suppressions"):
        await world.dispatcher().round()
    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"], row["claim_id"]) == ("PENDING", 0, None)


# ---------------------------------------------------------------- stop, and pace


async def test_at_stop_what_was_not_begun_is_given_back_and_what_was_is_recorded(world: World) -> None:
    """SIGTERM in the middle of a batch: the mail on the wire is finished, the others are somebody else's at once."""
    ids = [await world.enqueue(f"user{number}@example.com") for number in range(20)]

    async def told_to_stop() -> None:
        if world.server.mails:
            world.stopping[0] = True

    world.server.before = told_to_stop
    assert await world.dispatcher().round() is False
    rows = [await world.row(row_id) for row_id in ids]
    sent = [row for row in rows if row["status"] == "SENT"]
    given_back = [row for row in rows if row["status"] == "PENDING"]
    assert 0 < len(sent) < 20
    assert len(sent) + len(given_back) == 20
    assert len(sent) == len(world.server.mails)
    assert {(row["attempt_count"], row["claim_id"], row["lease_until"]) for row in given_back} == {(0, None, None)}
    assert all(row["next_attempt_at"] <= datetime.now(UTC) for row in given_back)


async def test_a_cancelled_batch_records_what_was_answered_and_gives_back_what_was_not_begun(world: World) -> None:
    ids = [await world.enqueue(f"user{number}@example.com") for number in range(20)]
    asked = asyncio.Event()
    never = asyncio.Event()

    class Silent(MailServer):
        async def send(self, batch: Any, window: Any) -> Any:
            if self.mails:
                asked.set()
                await never.wait()
            return await super().send(batch, window)

    quotas = {"smtp": Quota("smtp", 50.0)}  # five tokens at a time: the claim goes out in several parts
    task = asyncio.create_task(world.dispatcher(sender=Silent(), quotas=quotas).round())
    await asyncio.wait_for(asked.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    statuses = [(await world.row(row_id))["status"] for row_id in ids]
    assert statuses.count("SENT") > 0
    assert statuses.count("PENDING") > 0, "never begun: nobody waits for a lease"
    assert 0 < statuses.count("SENDING") <= 5, "on the wire: nobody knows, the reaper decides"


async def test_mails_are_paced_by_recipients_without_redis(world: World) -> None:
    for number in range(8):
        await world.enqueue(f"a{number}@example.com", f"b{number}@example.com")
    loop = asyncio.get_running_loop()
    started = loop.time()
    await world.drain(quotas={"smtp": Quota("smtp", 20.0)})
    took = loop.time() - started
    assert await world.statuses() == {"SENT": 8}
    assert 0.6 < took < 3.0, "16 recipients at 20 a second"


async def test_a_drained_account_gives_its_rows_back_until_it_may_be_asked_again(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [Throttled(Scope.ACCOUNT, "end 421 4.7.0", retry_after_sec=30)]
    dispatcher = world.dispatcher()
    await dispatcher.round()
    await world.due_now(row_id)
    waits = await world.enqueue(BORA)
    await dispatcher.round()
    row = await world.row(waits)
    assert (row["status"], row["attempt_count"]) == ("PENDING", 0)
    assert row["next_attempt_at"] > datetime.now(UTC)
    assert len(world.server.mails) == 1


# ---------------------------------------------------------------- leases


async def test_a_lease_that_ran_out_counts_an_attempt_and_the_row_is_due_again(world: World) -> None:
    stuck, held = await world.enqueue(AYSE), await world.enqueue(BORA)
    theirs = await world.enqueue(CEM, model="B")
    await EmailStore(world.source).claim(MessageClass.TX, floor=OLDEST, limit=20, lease_sec=120)
    over = datetime.now(UTC) - timedelta(seconds=1)
    await world.update(stuck, lease_until=over)
    await world.update(theirs, status="SENDING", lease_until=over)
    before = counted(metrics.EMAIL_REAPED, "shop")
    assert await world.reaper().round() is False

    row = await world.row(stuck)
    assert (row["status"], row["attempt_count"], row["claim_id"], row["locked_at"]) == ("PENDING", 1, None, None)
    assert (await world.row(held))["status"] == "SENDING", "its lease is not over"
    assert (await world.row(theirs))["status"] == "SENDING", "model B has a reaper of its own"
    assert counted(metrics.EMAIL_REAPED, "shop") == before + 1
    await world.drain()
    assert (await world.row(stuck))["status"] == "SENT"


async def test_a_mail_that_kills_its_relay_every_time_ends(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    store = EmailStore(world.source)
    for _ in range(8):
        await store.claim(MessageClass.TX, floor=OLDEST, limit=20, lease_sec=120)
        await world.update(row_id, lease_until=datetime.now(UTC) - timedelta(seconds=1))
        await world.reaper().round()
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("FAILED", 8)
    assert row["error_message"].startswith("exhausted: ")
    assert world.server.mails == []
