"""`ulak outbox show`: one row, without what it says, and what to do about it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from ops.cli.errors import CommandError
from shared.core.identifier import EMAIL, NOTIFICATION, new_id, public_id
from shared.core.sealing import KeyRing, Purpose, seal
from shared.postgres.pool import Pool
from tests.integration.ops.cli.outbox.conftest import Operator, add_set_aside, publish
from tests.integration.relay.email.world import World
from tests.integration.relay.rows import add_outbox

pytestmark = pytest.mark.postgres

EVENT = """SELECT ulak.enqueue_event('/shop', 'com.example.OrderShipped', '{"name": "Ada"}', key => '98213'"""


async def test_an_event_is_shown_without_its_data(operator: Operator, foreign_pool: Pool) -> None:
    id_ = await foreign_pool.fetchval(f"{EVENT}, ordered => true, idempotency_key => 'order 98213')")
    by_id, by_key = await operator.reads("show", id_), await operator.reads("show", "order 98213")
    assert by_id == by_key
    [shown] = by_id["found"]
    time = shown["event"].pop("time")
    assert datetime.fromisoformat(time) == await foreign_pool.fetchval("SELECT available_at FROM ulak.outbox")
    assert shown.pop("availableAt")
    assert shown.pop("payloadBytes") > 100
    assert shown == {
        "kind": "event",
        "source": "shop",
        "id": id_,
        "state": "due",
        "error": None,
        "class": "tx",
        "topic": "domain-events",
        "key": "98213",
        "ordered": True,
        "sequence": 1,
        "headers": {},
        "sealedUnder": None,
        "event": {"id": id_, "source": "/shop", "type": "com.example.OrderShipped"},
        "advice": "If it stays here, see that a relay runs, reads this source and reaches Kafka.",
    }
    output = (await operator.types("show", id_)).output
    assert f"event {id_}  in shop" in output
    assert "topic: domain-events" in output
    assert "Ada" not in output


async def test_one_set_aside_tells_why_and_what_to_do(operator: Operator, foreign_pool: Pool) -> None:
    [id_] = await add_set_aside(foreign_pool, error="oversized: 2000000 bytes are more than the broker takes (K15)")
    [shown] = (await operator.reads("show", str(id_)))["found"]
    assert (shown["state"], shown["availableAt"]) == ("set aside", None)
    assert shown["error"].startswith("oversized")
    assert "send a reference" in shown["advice"]


async def test_a_sealed_one_tells_its_key_and_opens_with_the_ring(
    operator: Operator, foreign_pool: Pool, key_ring: KeyRing
) -> None:
    id_ = new_id()
    payload = orjson.dumps({"specversion": "1.0", "id": "7", "source": "/s", "type": "t", "data": {"x": 1}})
    await add_outbox(foreign_pool, id=id_, sealed=True, payload=seal(key_ring, Purpose.OUTBOX, id_.bytes, payload))
    [shown] = (await operator.reads("show", str(id_)))["found"]
    assert (shown["sealedUnder"], shown["event"]) == ("k1", {"id": "7", "source": "/s", "type": "t"})
    operator.has_ring = False
    [shown] = (await operator.reads("show", str(id_)))["found"]
    assert (shown["sealedUnder"], shown["event"]) == ("k1", None)


async def test_a_published_one_is_found_while_it_is_kept(operator: Operator, foreign_pool: Pool) -> None:
    id_ = await foreign_pool.fetchval(f"{EVENT}, idempotency_key => 'k')")
    await publish(foreign_pool)
    [shown] = (await operator.reads("show", id_))["found"]
    assert shown["state"] == "published"
    assert datetime.fromisoformat(shown["publishedAt"]) == await foreign_pool.fetchval(
        "SELECT published_at FROM ulak.outbox_published"
    )
    await foreign_pool.execute("TRUNCATE ulak.outbox_published")
    [key] = (await operator.reads("show", "k"))["found"]
    assert (key["kind"], key["eventId"]) == ("idempotency key", id_)
    with pytest.raises(CommandError, match="no row for"):
        await operator.types("show", id_)


async def test_an_event_is_found_by_the_id_that_its_service_gave_it(
    operator: Operator, foreign_pool: Pool, key_ring: KeyRing
) -> None:
    """Which need not be its row's: waiting or published, in the clear or sealed, in the payload or in headers."""
    await foreign_pool.execute(f"{EVENT}, id => 'order-98213-SHIPPED', idempotency_key => 'order 98213')")
    await foreign_pool.execute(f"{EVENT}, id => 'order-98213-SHIPPED-2')")
    sealed = new_id()
    payload = orjson.dumps({"specversion": "1.0", "id": "sealed-7", "source": "/s", "type": "t", "data": {}})
    await add_outbox(
        foreign_pool, id=sealed, sealed=True, payload=seal(key_ring, Purpose.OUTBOX, sealed.bytes, payload)
    )
    [binary] = await add_outbox(foreign_pool, headers={"ce_id": "binary-7"}, payload=b"order-98213-SHIPPED")

    by_id, by_key = await operator.reads("show", "order-98213-SHIPPED"), await operator.reads("show", "order 98213")
    assert by_id == by_key
    [shown] = by_id["found"]
    assert (shown["state"], shown["event"]["id"]) == ("due", "order-98213-SHIPPED")
    assert [each["id"] for each in (await operator.reads("show", "sealed-7"))["found"]] == [str(sealed)]
    assert [each["id"] for each in (await operator.reads("show", "binary-7"))["found"]] == [str(binary)]

    await publish(foreign_pool)
    [published] = (await operator.reads("show", "order-98213-SHIPPED"))["found"]
    assert (published["state"], published["id"]) == ("published", shown["id"])
    operator.has_ring = False
    with pytest.raises(CommandError, match="no row for"):
        await operator.types("show", "sealed-7")


async def test_where_nothing_is_found_it_says_what_was_looked_for(operator: Operator) -> None:
    with pytest.raises(CommandError) as unknown:
        await operator.types("show", "order-1")
    assert "no row for 'order-1' in own, shop. Looked for as an idempotency key, and an event's own id" in str(
        unknown.value
    )
    with pytest.raises(
        CommandError, match="Looked for as an e-mail's id, the id of an event's row, an idempotency key"
    ):
        await operator.types("show", str(new_id()))


async def test_an_email_is_shown_with_masked_recipients(operator: Operator, world: World) -> None:
    row = await world.enqueue(
        "Ayşe <ayse@example.com>", cc=["bob@example.com"], bcc=["cem@example.org"], idempotency_key="invoice 7"
    )
    await world.update(
        row,
        status="FAILED",
        error_message="exhausted: 1 of 3 recipients not reached: 451 later",
        attempt_count=8,
        outcomes={"0": "SENT", "2": "FAILED permanent: 550"},
        provider="smtp",
    )
    id_ = public_id(EMAIL, row)
    found = [await operator.reads("show", name) for name in (id_, str(row), "invoice 7")]
    assert found[0] == found[1] == found[2]
    [shown] = found[0]["found"]
    assert shown["recipients"] == [
        {"position": 0, "field": "to", "address": "a***@example.com", "outcome": "SENT"},
        {"position": 1, "field": "cc", "address": "b***@example.com", "outcome": "FAILED"},
        {"position": 2, "field": "bcc", "address": "c***@example.org", "outcome": "FAILED permanent: 550"},
    ]
    assert {name: shown[name] for name in ("id", "model", "status", "attempts", "provider", "contentKept", "type")} == {
        "id": id_, "model": "A", "status": "FAILED", "attempts": 8, "provider": "smtp", "contentKept": True,
        "type": "ORDER_SHIPPED",
    }  # fmt: skip
    assert shown["advice"] == "See that the provider takes mail again, then requeue it."
    output = (await operator.types("show", id_)).output
    assert "recipient cc b***@example.com: FAILED" in output
    assert "98213" not in output
    assert "ayse@" not in output


async def test_sealed_recipients_are_told_if_the_ring_opens_them(
    operator: Operator, world: World, key_ring: KeyRing
) -> None:
    row = await world.enqueue_sealed(key_ring, "ayse@example.com")
    await world.update(row, outcomes={"0": "SENT"})
    [shown] = (await operator.reads("show", str(row)))["found"]
    assert shown["recipients"][0]["address"] == "a***@example.com"
    operator.has_ring = False
    [shown] = (await operator.reads("show", str(row)))["found"]
    assert shown["sealedUnder"] == "k1"
    assert shown["recipients"] == [{"position": 0, "field": None, "address": "sealed", "outcome": "SENT"}]
    assert "recipient sealed: SENT" in (await operator.types("show", str(row))).output


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        ({"locale": "tr"}, "see that a relay runs"),
        ({"next_attempt_at": datetime.now(UTC) + timedelta(hours=1)}, "It is tried at"),
        ({"status": "SENDING"}, "A relay is at it"),
        ({"status": "SENDING", "notification_id": UUID(int=7)}, "`ulak why`"),
        ({"status": "SENT"}, "Nothing to do"),
        ({"status": "FAILED", "error_message": "no_template: none"}, "templates push"),
        ({"status": "FAILED", "error_message": "what is this"}, "See what the error says"),
        (
            {"status": "FAILED", "error_message": "exhausted: x", "expires_at": datetime.now(UTC) - timedelta(hours=1)},
            "time to live is over",
        ),
    ],
)
async def test_every_state_has_its_advice(
    operator: Operator, world: World, columns: dict[str, object], advice: str
) -> None:
    row = await world.enqueue()
    await world.update(row, **columns)
    [shown] = (await operator.reads("show", str(row)))["found"]
    assert advice in shown["advice"]


async def test_what_came_by_the_api_alone_is_pointed_to(operator: Operator, pool: Pool) -> None:
    id_ = new_id()
    await pool.execute(
        "INSERT INTO ulak.email_intakes (notification_id, source, source_id, created_at) VALUES ($1, '', $1, now())",
        id_,
    )
    [shown] = (await operator.reads("show", public_id(EMAIL, id_)))["found"]
    assert shown["notificationId"] == public_id(NOTIFICATION, id_)
    assert f"ulak why {public_id(EMAIL, id_)}" in shown["advice"]


async def test_names_that_can_be_nothing_are_refused(operator: Operator) -> None:
    with pytest.raises(CommandError, match="is not an id"):
        await operator.types("show", "eml_nonsense")
    with pytest.raises(CommandError, match="ulak why ntf_"):
        await operator.types("show", public_id(NOTIFICATION, new_id()))
    with pytest.raises(CommandError, match="no row for 'x' in own, shop"):
        await operator.types("show", "x")


async def test_a_source_that_is_down_hides_no_row_of_another(operator: Operator, world: World) -> None:
    row = await world.enqueue()
    operator.lose()
    body = await operator.reads("show", str(row), exit_code=1)
    assert [shown["source"] for shown in body["found"]] == ["shop"]
    assert [problem["source"] for problem in body["problems"]] == ["away"]
