"""A shop's rows become entries of the ledger, once each, whatever is wrong with their neighbours."""

import asyncio
from datetime import timedelta

import orjson
import pytest

from services.relay.source import Source
from shared.core.email import recipients_from_json
from shared.core.identifier import EMAIL, public_id
from shared.core.sealing import KeyRing, Purpose, open_sealed, seal
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import MessageClass
from tests.integration.relay.intake.conftest import MakeIntake, Shop
from tests.integration.relay.rows import count

pytestmark = pytest.mark.postgres


async def test_a_row_goes_into_the_ledger_and_says_so(
    own: Pool, shop: Shop, make_intake: MakeIntake, key_ring: KeyRing
) -> None:
    id_ = await shop.enqueue("Ada <ada@example.com>", "b@example.com")

    assert await make_intake().round() is False

    row = await shop.row(id_)
    notification = await own.fetchrow("SELECT * FROM ulak.notifications")
    assert notification is not None
    assert (row["status"], row["notification_id"]) == ("SENDING", notification["id"])
    assert row["locked_at"] is not None
    assert notification["event_id"] == public_id(EMAIL, id_)
    application = await own.fetchval("SELECT name FROM ulak.applications WHERE id = $1", notification["application_id"])
    assert application == "webshop", "named by the source, made on first use"
    assert await count(own, "deliveries") == 2
    link = await own.fetchrow("SELECT * FROM ulak.email_intakes")
    assert link is not None
    assert (link["source"], link["source_id"], link["settled_at"]) == ("shop", id_, None)
    assert (row["sealed"], row["parameters"]) == (True, None), "the ledger has the parameters now"
    opened = open_sealed(key_ring, Purpose.OUTBOX, id_.bytes + b"recipients", row["recipients"])
    assert [str(entry.mailbox) for entry in recipients_from_json(opened)] == [
        '"Ada" <ada@example.com>',
        "b@example.com",
    ]


async def test_rows_of_model_a_and_of_other_classes_are_left_alone(
    own: Pool, shop: Shop, make_intake: MakeIntake
) -> None:
    a = await shop.enqueue(model="A")
    low = await shop.enqueue(priority="low")

    await make_intake().round()
    assert [(await shop.row(each))["status"] for each in (a, low)] == ["PENDING", "PENDING"]

    await make_intake(message_class=MessageClass.LOW).round()
    assert (await shop.row(low))["status"] == "SENDING"
    assert await own.fetchval("SELECT topic FROM ulak.outbox") == "email-low"


async def test_killed_between_the_two_commits_it_is_the_same_entry(
    own: Pool, shop: Shop, source: Source, make_intake: MakeIntake
) -> None:
    """The row's commit is refused by a trigger, as if the process had died before it."""
    id_ = await shop.enqueue()
    await shop.pool.execute(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$killed$$; END';
        CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON ulak.email_messages DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    )
    with pytest.raises(Exception, match="killed"):
        await make_intake().round()
    assert (await shop.row(id_))["status"] == "PENDING"
    assert await count(own, "notifications") == 1

    await shop.pool.execute("DROP TRIGGER refuse ON ulak.email_messages")
    await make_intake().round()

    row = await shop.row(id_)
    assert row["status"] == "SENDING"
    assert row["notification_id"] == await own.fetchval("SELECT id FROM ulak.notifications")
    assert await count(own, "outbox") == 1


async def test_what_can_never_be_sent_fails_with_its_reason_and_its_neighbours_go(
    own: Pool, shop: Shop, make_intake: MakeIntake, key_ring: KeyRing
) -> None:
    bad_address = await shop.enqueue("a..b@example.com")
    not_json = await shop.enqueue()
    await shop.pool.execute("UPDATE ulak.email_messages SET recipients = '\\xff' WHERE id = $1", not_json)
    bad_file = await shop.enqueue(attachments=[{"filename": "a.exe", "contentType": "x/y", "storageRef": "file:a"}])
    bad_ref = await shop.enqueue(attachments=[{"filename": "a", "contentType": "x/y", "storageRef": "file:../a"}])
    unknown = await shop.enqueue(template="NOBODY")
    bare = await shop.enqueue(template="BARE")
    marketing = await shop.enqueue(template="WINTER_SALE")
    expired = await shop.enqueue(expires_in=timedelta(seconds=-1))
    lost = await shop.enqueue()
    old = KeyRing(active="k0", keys={"k0": bytes(32)}, lookup_key=key_ring.lookup_key)
    await shop.pool.execute(
        "UPDATE ulak.email_messages SET sealed = true, recipients = $2 WHERE id = $1",
        lost,
        seal(old, Purpose.OUTBOX, lost.bytes + b"recipients", b"{}"),
    )
    good = await shop.enqueue()
    ring = KeyRing(key_ring.active, key_ring.keys, key_ring.lookup_key, lost=frozenset({"k0"}))

    await make_intake(rings=FixedRingSource(ring)).round()

    async def error(id_: object) -> str:
        row = await shop.pool.fetchrow("SELECT * FROM ulak.email_messages WHERE id = $1", id_)
        assert row is not None
        assert (row["status"], row["notification_id"]) == ("FAILED", None)
        assert row["sealed"], "what nobody can be sent is not kept in the clear either"
        return str(row["error_message"])

    assert (await error(bad_address)).startswith("invalid: to.0: not an e-mail address")
    assert (await error(not_json)).startswith("invalid: recipients: is not JSON")
    assert (await error(bad_file)).startswith("invalid: attachments.0.filename")
    assert (await error(bad_ref)).startswith("invalid: attachments.0.storageRef: a file: reference has a path with")
    assert (await error(unknown)).startswith("unknown_type: there is no notification type NOBODY")
    assert (await error(bare)).startswith("no_template: BARE has no e-mail template")
    assert (await error(marketing)).startswith("no_consent: WINTER_SALE is marketing")
    assert (await error(expired)).startswith("expired")
    assert (await error(lost)).startswith("unsealable: sealed under key 'k0', which the key ring records as lost")
    assert (await shop.row(good))["status"] == "SENDING"
    assert await count(own, "notifications") == 1
    kept = {id_ for id_ in (unknown, bare, lost) if (await shop.row(id_))["parameters"] is not None}
    assert kept == {unknown, bare, lost}, "what can be repaired keeps what it says"
    assert (await shop.row(marketing))["parameters"] is None


async def test_a_key_that_may_still_come_is_waited_for(
    own: Pool, shop: Shop, make_intake: MakeIntake, key_ring: KeyRing
) -> None:
    id_ = await shop.enqueue()
    newer = KeyRing(active="k2", keys={**key_ring.keys, "k2": bytes(32)}, lookup_key=key_ring.lookup_key)
    recipients = seal(newer, Purpose.OUTBOX, id_.bytes + b"recipients", orjson.dumps({"to": ["ada@example.com"]}))
    parameters = seal(newer, Purpose.OUTBOX, id_.bytes + b"parameters", orjson.dumps({"number": 1, "name": "Ada"}))
    await shop.pool.execute(
        "UPDATE ulak.email_messages SET sealed = true, recipients = $2, parameters = $3 WHERE id = $1",
        id_,
        recipients,
        parameters,
    )

    await make_intake().round()

    row = await shop.row(id_)
    assert (row["status"], row["recipients"], row["parameters"]) == ("PENDING", recipients, parameters)
    assert "'k2', which is not in this key ring" in row["error_message"]
    assert row["next_attempt_at"] - row["created_at"] > timedelta(seconds=25), "and it holds up no other meanwhile"

    await shop.pool.execute("UPDATE ulak.email_messages SET next_attempt_at = now()")
    await make_intake(rings=FixedRingSource(newer)).round()
    row = await shop.row(id_)
    assert (row["status"], row["error_message"]) == ("SENDING", None)


async def test_several_intakes_share_the_rows(own: Pool, shop: Shop, make_intake: MakeIntake) -> None:
    for _ in range(40):
        await shop.enqueue()

    async def all_rounds() -> None:
        intake = make_intake(batch=5)
        while await intake.round():
            pass

    await asyncio.gather(*(all_rounds() for _ in range(3)))

    assert await shop.pool.fetchval("SELECT count(*) FROM ulak.email_messages WHERE status = 'SENDING'") == 40
    assert await count(own, "notifications") == await count(own, "outbox") == 40
