"""E-mail requests become rows that belong together, once each."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from shared.core.address import target_key
from shared.core.email import request_from_json
from shared.core.identifier import EMAIL, new_id, public_id
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.decision.facts import Mode
from shared.ledger.ask import Entered, Refused
from shared.postgres.audit import audit
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.wire.channel import MessageClass
from shared.wire.message import DeliveryHint, decode
from tests.integration.ledger.world import add_template, ask, deliveries, ledger, request
from tests.integration.relay.rows import retold

pytestmark = pytest.mark.postgres


async def audited(pool: Pool) -> None:
    async with pool.acquire() as connection:
        assert (await audit(connection, datetime.now(UTC))).clean


async def test_a_message_is_one_notification_with_a_delivery_per_recipient_and_one_hint(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    asked = ask(key_ring, application, request("Ada <ada@example.com>", "b@example.com", cc=["c@example.com"]))

    answers = await ledger(pool, key_ring).enter([asked])

    assert answers.entries == [Entered(asked.id, asked.fingerprint)]
    row = await pool.fetchrow("SELECT * FROM ulak.notifications WHERE id = $1", asked.id)
    assert row is not None
    assert (row["state"], row["type"], row["message_class"], row["mode"]) == ("DECIDED", "INVOICE_READY", 1, "live")
    assert row["event_id"] == public_id(EMAIL, asked.source_id)
    assert row["expires_at"] == asked.created_at + timedelta(days=1), "the type's time to live, from the writing on"
    stored = await deliveries(pool, asked.id)
    addresses = {
        open_sealed(key_ring, Purpose.ADDRESS, each["target_key"], each["address_sealed"]).decode() for each in stored
    }
    assert addresses == {"ada@example.com", "b@example.com", "c@example.com"}
    assert {(each["status"], each["promise"]) for each in stored} == {("PENDING", "AT_LEAST_ONCE")}
    [hint] = await pool.fetch("SELECT * FROM ulak.outbox")
    assert (hint["topic"], hint["key"], hint["message_class"]) == ("email-tx", str(asked.id).encode(), 1)
    assert decode(DeliveryHint, hint["payload"]) == DeliveryHint(
        asked.id, "EMAIL", target_key(key_ring, "EMAIL", "ada@example.com"), 0, MessageClass.TX
    )
    await audited(pool)


async def test_what_is_stored_is_the_request_sealed(pool: Pool, key_ring: KeyRing, application: int) -> None:
    asked = ask(key_ring, application)
    await ledger(pool, key_ring).enter([asked])

    row = await pool.fetchrow("SELECT * FROM ulak.contents WHERE notification_id = $1", asked.id)
    assert row is not None
    assert row["purpose"] == "email-v1"
    plain = open_sealed(key_ring, Purpose.EMAIL, asked.id.bytes + b"EMAIL", row["sealed"])
    assert request_from_json(plain) == asked.request


async def test_the_same_row_again_is_the_same_entry_and_its_end_is_owed_again(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    """A relay died between the two commits; meanwhile the entry was even settled, and its type is gone."""
    first = ask(key_ring, application)
    book = ledger(pool, key_ring)
    await book.enter([first])
    await pool.execute("UPDATE ulak.email_intakes SET settled_at = now()")
    await pool.execute("DELETE FROM ulak.templates")

    again = await ledger(pool, key_ring).enter([ask(key_ring, application, source_id=first.source_id)])

    assert again.entries == [Entered(first.id, first.fingerprint)]
    assert not again.outgoing
    assert await pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1
    assert await pool.fetchval("SELECT settled_at IS NULL FROM ulak.email_intakes")


async def test_one_key_is_one_entry_for_many_at_once(pool: Pool, key_ring: KeyRing, application: int) -> None:
    book = ledger(pool, key_ring)
    asks = [ask(key_ring, application, key="order-7", source=f"source {number}") for number in range(8)]

    answers = await asyncio.gather(*(book.enter(asks[start : start + 2]) for start in range(0, 8, 2)))

    holders = {entry.notification_id for each in answers for entry in each.entries if isinstance(entry, Entered)}
    assert len(holders) == 1
    assert sum(len(each.outgoing) for each in answers) == 1
    await audited(pool)


async def test_entries_do_not_wait_for_each_other_s_connection(
    pool: Pool, database: str, key_ring: KeyRing, application: int
) -> None:
    """The catalogue is read from the same pool, again and again here: with one connection held it never could be."""
    async with open_pool(PostgresSettings(dsn=database), name="test", size=1) as single:
        book = ledger(single, key_ring, CatalogueCache(single, ttl_sec=0.0))
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(book.enter([ask(key_ring, application, request(template="NOBODY"))]) for _ in range(4)),
                *(book.enter([ask(key_ring, application)]) for _ in range(4)),
            )
    assert await pool.fetchval("SELECT count(*) FROM ulak.notifications") == 4


async def test_a_suppressed_recipient_is_left_out_and_told(pool: Pool, key_ring: KeyRing, application: int) -> None:
    gone = target_key(key_ring, "EMAIL", "gone@example.com")
    await pool.execute("INSERT INTO ulak.suppressions (channel, address_key, reason) VALUES ('EMAIL', $1, 'x')", gone)
    asked = ask(key_ring, application, request("gone@example.com", "ada@example.com"))
    simulated = ask(key_ring, application, request("gone@example.com"), mode=Mode.TEST)

    await ledger(pool, key_ring).enter([asked, simulated])

    stored = {each["target_key"]: each for each in await deliveries(pool, asked.id)}
    skipped, [pending] = stored.pop(gone), stored.values()
    assert (skipped["status"], skipped["reason"]) == ("SKIPPED", "suppressed")
    assert (pending["status"], pending["reason"]) == ("PENDING", None)
    event, hint = await pool.fetch("SELECT * FROM ulak.outbox WHERE key = $1 ORDER BY topic", str(asked.id).encode())
    assert (event["topic"], hint["topic"]) == ("delivery-events", "email-tx")
    assert event["payload"] == retold(skipped)
    log = await pool.fetch("SELECT * FROM ulak.delivery_log WHERE notification_id = $1 ORDER BY id", asked.id)
    assert [(each["result"], each["reason"], each["target_key"]) for each in log] == [
        ("go", None, b""),
        ("skip", "suppressed", gone),
    ]
    assert [each["status"] for each in await deliveries(pool, simulated.id)] == ["PENDING"], "a test reaches nobody"
    await audited(pool)


async def test_a_user_who_switched_it_off_gets_no_mail_but_of_security(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    user = await pool.fetchval("INSERT INTO ulak.recipients (external_id) VALUES ('7') RETURNING user_id")
    for category in ("TRANSACTIONAL", "SECURITY"):
        await pool.execute(
            "INSERT INTO ulak.user_preferences (user_id, category, channel, enabled) VALUES ($1, $2, 'EMAIL', false)",
            user,
            category,
        )
    invoice = ask(key_ring, application, request(user_id="7"))
    reset = ask(key_ring, application, request(user_id="7", template="PASSWORD_RESET"))
    unknown = ask(key_ring, application, request(user_id="8"))

    await ledger(pool, key_ring).enter([invoice, reset, unknown])

    assert [tuple(each)[:2] for each in await _states(pool, invoice.id)] == [("SKIPPED", "preference")]
    assert [tuple(each)[:2] for each in await _states(pool, reset.id)] == [("PENDING", None)]
    assert [tuple(each)[:2] for each in await _states(pool, unknown.id)] == [("PENDING", None)]
    assert await pool.fetchval("SELECT count(*) FROM ulak.recipients WHERE external_id = '8'") == 1, "first sight"
    await audited(pool)


async def _states(pool: Pool, notification_id: object) -> list[asyncpg.Record]:
    return await pool.fetch("SELECT status, reason FROM ulak.deliveries WHERE notification_id = $1", notification_id)


async def test_a_team_key_reaches_its_allow_list_alone(pool: Pool, key_ring: KeyRing, application: int) -> None:
    key_id = new_id()
    await pool.execute(
        "INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes, allow_list) "
        "VALUES ($1, $2, 'team', '\\x00', 'team', '{all}', $3)",
        key_id,
        application,
        [target_key(key_ring, "EMAIL", "ada@example.com")],
    )
    asked = ask(key_ring, application, request("ada@example.com", "b@example.com"), mode=Mode.TEAM, api_key_id=key_id)

    await ledger(pool, key_ring).enter([asked])

    assert {tuple(each) for each in await _states(pool, asked.id)} == {
        ("PENDING", None),
        ("SKIPPED", "not_on_allow_list"),
    }


async def test_what_can_never_be_sent_is_refused_and_stops_no_other(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    asks = [
        ask(key_ring, application, request(template="NOBODY")),
        ask(key_ring, application, request(template="BARE")),
        ask(key_ring, application, request(template="WINTER_SALE")),
        ask(key_ring, application, created_at=datetime.now(UTC) - timedelta(days=2)),
        ask(key_ring, application, expires_at=datetime.now(UTC) - timedelta(seconds=1)),
        ask(key_ring, application),
    ]

    answers = await ledger(pool, key_ring).enter(asks)

    reasons = [entry.reason if isinstance(entry, Refused) else None for entry in answers.entries]
    assert reasons == [
        *(Reason.UNKNOWN_TYPE, Reason.NO_TEMPLATE, Reason.NO_CONSENT, Reason.EXPIRED, Reason.EXPIRED),
        None,
    ]
    assert await pool.fetchval("SELECT count(*) FROM ulak.notification_dedup") == 1, "refused ones may come again"
    await audited(pool)


async def test_a_template_pushed_a_moment_ago_is_found(pool: Pool, key_ring: KeyRing, application: int) -> None:
    """The catalogue at hand is up to five seconds old; before it refuses anything it is read again."""
    moment = 100.0
    book = ledger(pool, key_ring, CatalogueCache(pool, clock=lambda: moment))
    await book.enter([ask(key_ring, application)])
    await add_template(pool, "BARE")
    moment += 1.0

    [answer] = (await book.enter([ask(key_ring, application, request(template="BARE"))])).entries

    assert isinstance(answer, Entered)


async def test_a_caller_may_lower_the_class_and_never_raise_it(pool: Pool, key_ring: KeyRing, application: int) -> None:
    reset, invoice = request(template="PASSWORD_RESET"), request()
    asks = [
        ask(key_ring, application, reset),
        ask(key_ring, application, reset, asked_class=MessageClass.LOW),
        ask(key_ring, application, invoice, asked_class=MessageClass.CRITICAL),
    ]
    await ledger(pool, key_ring).enter(asks)

    topics = {row["key"]: row["topic"] for row in await pool.fetch("SELECT key, topic FROM ulak.outbox")}
    assert [topics[str(each.id).encode()] for each in asks] == ["email-critical", "email-low", "email-tx"]
    await audited(pool)


async def test_relays_are_woken_for_hints_that_nobody_else_publishes(
    pool: Pool, key_ring: KeyRing, application: int
) -> None:
    """A relay that hears NOTIFY looks at its own outbox every two seconds only."""
    heard: asyncio.Queue[object] = asyncio.Queue()

    def hear(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        heard.put_nowait(payload)

    async with pool.acquire() as listening:
        await listening.add_listener("ulak_outbox", hear)
        later = datetime.now(UTC) + timedelta(seconds=2)
        await ledger(pool, key_ring).enter([ask(key_ring, application)], available_at=later)
        await ledger(pool, key_ring).enter([ask(key_ring, application)])
        async with asyncio.timeout(60):
            await heard.get()
        await listening.remove_listener("ulak_outbox", hear)

    assert heard.empty(), "one for the hint that is due at once; whoever publishes the later one needs none"
