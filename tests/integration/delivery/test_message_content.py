"""What messages with several recipients say: made when they are sent, with their sender, kept while it is needed."""

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.core.outcome import Outcome, Permanent
from shared.core.ports import DkimKey, SenderProfile
from shared.core.sealing import KeyRing
from shared.core.sender import seal_profile
from shared.delivery.requeue import requeue_emails
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import DEFAULT_CHANNELS
from tests.integration.delivery.mailing import ADA, BEN, EVERYONE, GREYLISTED, NO_SUCH_USER, Mailing, make_mailing
from tests.integration.delivery.world import until

pytestmark = pytest.mark.postgres


async def set_template(pool: Pool, text: str, version: int) -> None:
    """Push another version of INVOICE_READY's words."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("UPDATE ulak.templates SET active = false WHERE type = 'INVOICE_READY'")
        await connection.execute(
            "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
            "VALUES ('INVOICE_READY', 'EMAIL', 'en', $1, $2, '{}', $3, true)",
            version,
            {"subject": "Invoice", "text": text},
            hashlib.sha256(text.encode()).digest(),
        )


async def test_an_unknown_key_waits_and_a_lost_one_fails(pool: Pool, key_ring: KeyRing, application: int) -> None:
    writer = make_mailing(pool, key_ring, application)
    message = await writer.enter(*EVERYONE)
    foreign = KeyRing("k9", {"k9": bytes(32)}, key_ring.lookup_key)
    behind = make_mailing(pool, key_ring, application, rings=FixedRingSource(foreign))
    await behind.work(message)
    assert await behind.statuses(message) == dict.fromkeys(EVERYONE, ("PENDING", None, 0))
    assert behind.sender.mails == []
    waiting = behind.owed(message)

    lost = make_mailing(
        pool, key_ring, application, rings=FixedRingSource(replace(foreign, lost=frozenset({key_ring.active})))
    )
    assert set(await lost.work(waiting)) == {(0, "unsealable")}
    assert await lost.statuses(message) == dict.fromkeys(EVERYONE, ("FAILED", "unsealable", 0))
    assert await lost.kept(message), "never cleared for want of a key"
    assert lost.world.hints() == []


async def test_what_cannot_be_rendered_fails_at_once_and_keeps_its_content(mailing: Mailing, pool: Pool) -> None:
    await set_template(pool, "{{ number.of.nothing }}", 2)
    message = await mailing.enter(*EVERYONE)
    assert set(await mailing.work(message)) == {(0, "render")}
    assert await mailing.statuses(message) == dict.fromkeys(EVERYONE, ("FAILED", "render", 0))
    assert await pool.fetchval("SELECT count(*) FROM ulak.dead_letters WHERE state = 'open'") == 3
    assert mailing.sender.mails == []
    assert mailing.world.hints() == []
    assert await mailing.kept(message)


async def test_what_fails_again_after_a_requeue_is_told_of_as_another_failure(mailing: Mailing, pool: Pool) -> None:
    """At the same attempt: attempts are counted anew. A hint that comes again tells the second failure once more."""
    await set_template(pool, "{{ number.of.nothing }}", 2)
    message = await mailing.enter(ADA)
    await mailing.work(message)
    async with pool.acquire() as connection, connection.transaction():
        requeued = await requeue_emails(connection, [message.key.notification_id], now=datetime.now(UTC))
    assert requeued.pending == 1
    await mailing.work(message)
    await mailing.work(message)
    first, second, _ = mailing.world.events()
    assert [(event["data"]["status"], event["data"]["attempt"]) for event in (first, second)] == [("FAILED", 0)] * 2
    assert first["id"] != second["id"]
    told = [record.value for record in mailing.world.producer.on("delivery-events")]
    assert told[2] == told[1], "to the last byte"


async def test_a_template_repaired_between_attempts_reaches_what_waits(mailing: Mailing, pool: Pool) -> None:
    mailing.sender.answers = {BEN: [GREYLISTED]}
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    await set_template(pool, "Dear all, here it is, repaired.", 2)
    mailing.pass_by(15)
    await mailing.work(mailing.owed(message))
    assert [mail.content["text"] for mail in mailing.sender.mails] == [
        "Dear Ada, here it is.",
        "Dear all, here it is, repaired.",
    ]


# ------------------------------------------------------------ what the router rendered


async def set_sender(pool: Pool, ring: KeyRing, type_name: str, profile: SenderProfile) -> None:
    stored = seal_profile("invoices", profile, ring)
    assert stored.dkim is not None
    await pool.execute(
        "INSERT INTO ulak.sender_profiles (name, from_address, from_name, dkim_domain, dkim_selector, dkim_key_sealed) "
        "VALUES ('invoices', $1, $2, $3, $4, $5)",
        profile.from_address,
        profile.from_name,
        stored.dkim.domain,
        stored.dkim.selector,
        stored.dkim.sealed,
    )
    await pool.execute("UPDATE ulak.notification_types SET sender_profile = 'invoices' WHERE type = $1", type_name)


async def test_rendered_mails_have_their_types_sender_too(mailing: Mailing, pool: Pool, key_ring: KeyRing) -> None:
    profile = SenderProfile("billing@shop.example", "Shop", dkim=DkimKey("shop.example", "s1", b"PEM"))
    await set_sender(pool, key_ring, "INVOICE_READY", profile)
    request = await mailing.enter(ADA, BEN)
    ours = await mailing.world.seeder.delivery("EMAIL", type_name="INVOICE_READY")
    other = await mailing.world.seeder.delivery("EMAIL", type_name="PASSWORD_RESET")
    await mailing.work(request, ours, other)
    [asked] = [mail.envelope for mail in mailing.sender.mails if mail.recipients == {ADA, BEN}]
    assert asked is not None
    assert asked.sender == profile
    rendered = [mail.envelope for mail in mailing.sender.mails if mail.recipients != {ADA, BEN}]
    assert [(envelope.message_reference, envelope.sender) for envelope in rendered if envelope is not None] == [
        (ours.key.reference, profile)
    ]
    assert len(rendered) == 2, "one without an envelope: the installation's sender"


async def test_a_sender_whose_key_is_lost_fails_its_mails(mailing: Mailing, pool: Pool, key_ring: KeyRing) -> None:
    gone = replace(key_ring, active="k0", keys={**key_ring.keys, "k0": bytes(32)})
    profile = SenderProfile("billing@shop.example", dkim=DkimKey("shop.example", "s1", b"PEM"))
    await set_sender(pool, gone, "INVOICE_READY", profile)
    lost = FixedRingSource(replace(key_ring, lost=frozenset({"k0"})))
    without = make_mailing(pool, key_ring, mailing.application, rings=lost)
    ours = await without.world.seeder.delivery("EMAIL", type_name="INVOICE_READY")
    assert await without.work(ours) == [(0, "config")]
    row = await without.world.seeder.row(ours.key)
    assert (row["status"], row["reason"], row["attempt"]) == ("FAILED", "config", 0)


# ------------------------------------------------------------ content


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        pytest.param({}, False, id="everyone-has-it"),
        pytest.param({BEN: [NO_SUCH_USER]}, False, id="has-it-or-is-gone"),
        pytest.param({BEN: [Permanent("554 refused")]}, False, id="has-it-or-was-refused-for-good"),
        pytest.param({BEN: [GREYLISTED]}, True, id="someone-waits"),
    ],
)
async def test_content_is_kept_as_long_as_somebody_needs_it(
    mailing: Mailing, answers: dict[str, list[Outcome]], kept: bool
) -> None:
    mailing.sender.answers = answers
    message = await mailing.enter(*EVERYONE)
    await mailing.work(message)
    assert await mailing.kept(message) is kept


async def test_content_of_the_exhausted_is_kept(mailing: Mailing, pool: Pool) -> None:
    message = await mailing.enter(*EVERYONE)
    last = DEFAULT_CHANNELS.lane("email-tx").max_attempts - 1
    await pool.execute("UPDATE ulak.deliveries SET attempt = $1", last)
    mailing.sender.answers = {BEN: [GREYLISTED]}
    await mailing.work(replace(message, hint=replace(message.hint, attempt=last)))
    assert (await mailing.statuses(message))[BEN] == ("FAILED", "exhausted", last + 1)
    assert await mailing.kept(message)


async def test_the_last_two_settled_at_once_clear_it(
    mailing: Mailing, pool: Pool, key_ring: KeyRing, application: int
) -> None:
    """Two claims hold one recipient each, and neither sees the other's outcome before it is committed."""
    message = await mailing.enter(ADA, BEN)
    rows = await mailing.rows(message)

    async def hold(address: str) -> None:
        await pool.execute(
            "UPDATE ulak.deliveries SET next_attempt_at = now() + interval '1 hour' "
            "WHERE notification_id = $1 AND target_key = $2",
            message.key.notification_id,
            rows[address]["target_key"],
        )

    async def release(address: str) -> None:
        await pool.execute(
            "UPDATE ulak.deliveries SET next_attempt_at = now() WHERE notification_id = $1 AND target_key = $2",
            message.key.notification_id,
            rows[address]["target_key"],
        )

    other = make_mailing(pool, key_ring, application)
    mailing.sender.gate, other.sender.gate = asyncio.Event(), asyncio.Event()
    await hold(BEN)
    first = asyncio.create_task(mailing.work(message))
    await mailing.sender.entered.wait()
    await release(BEN)
    second = asyncio.create_task(other.work(message))
    await other.sender.entered.wait()
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT FROM ulak.contents FOR UPDATE")
        mailing.sender.gate.set()
        other.sender.gate.set()

        async def both_wait() -> bool:
            return bool(
                await pool.fetchval(
                    "SELECT count(*) = 2 FROM pg_stat_activity "
                    "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%lock_requests%'"
                )
            )

        await until(both_wait, what="both claims at the content's lock")
    await asyncio.gather(first, second)
    assert mailing.sender.reached + other.sender.reached == [{ADA}, {BEN}]
    assert not await mailing.kept(message)
