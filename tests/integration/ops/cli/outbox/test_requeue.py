"""`ulak outbox requeue`: events that were set aside, and e-mails of model A from the command to the mail."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from ops.cli.errors import CommandError
from shared.core.identifier import EMAIL, new_id, public_id
from shared.core.outcome import Permanent, Transient
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.postgres.source import row_fingerprint
from tests.integration.ops.cli.outbox.conftest import Operator, add_set_aside
from tests.integration.relay.conftest import MakeReader
from tests.integration.relay.email.world import World, push_template
from tests.integration.relay.rows import add_outbox, outbox

pytestmark = pytest.mark.postgres

NOW = datetime.now(UTC)
NOTHING = {"requeued": 0, "followed": 0, "missed": 0, "refused": [], "sample": []}


async def fail(world: World, row: UUID, error: str = "exhausted: 451 later", **columns: object) -> str:
    """As the dispatcher leaves it; the id as operators type it."""
    await world.update(row, **{"status": "FAILED", "error_message": error, "attempt_count": 8} | columns)
    return public_id(EMAIL, row)


async def test_without_yes_nothing_is_changed_and_all_is_told(operator: Operator, world: World) -> None:
    rows = [await world.enqueue() for _ in range(2)]
    ids = [await fail(world, row) for row in rows]
    cleared = await fail(world, await world.enqueue(), "permanent: 550", parameters=None)
    [event] = await add_set_aside(world.source)
    before = await world.source.fetch("SELECT * FROM ulak.email_messages ORDER BY id"), await outbox(world.source)

    body = await operator.reads("requeue")

    assert (
        await world.source.fetch("SELECT * FROM ulak.email_messages ORDER BY id"),
        await outbox(world.source),
    ) == before
    assert body["dryRun"] is True
    own, shop = body["sources"]
    assert own == {"source": "own", "events": NOTHING, "emails": NOTHING}
    assert shop["events"] == NOTHING | {
        "requeued": 1,
        "sample": [{"id": str(event), "name": "orders", "error": "unknown_topic: topic x does not exist"}],
    }
    assert shop["emails"] == NOTHING | {
        "requeued": 2,
        "sample": [{"id": id_, "name": "ORDER_SHIPPED", "error": "exhausted: 451 later"} for id_ in ids],
        "refused": [
            {
                "why": "nothing is left to send: its content went when it was refused for good",
                "count": 1,
                "sample": [cleared],
            }
        ],
    }
    output = (await operator.types("requeue")).output
    assert "would go again: 2 e-mails" in output
    assert "would go again: 1 event\n" in output
    assert f"cannot go again: 1 e-mail (such as {cleared}): nothing is left to send" in output
    assert "Nothing was changed: --yes does it." in output


async def test_an_email_of_model_a_goes_to_those_who_do_not_have_it(operator: Operator, world: World) -> None:
    world.server.answers = {"bob@example.com": [Transient("451 later")], "cem@example.com": [Permanent("550 no")]}
    row = await world.enqueue("ayse@example.com", "bob@example.com", "cem@example.com")
    for _ in range(8):
        await world.due_now(row)
        world.server.answers["bob@example.com"] = [Transient("451 later")]
        await world.drain()
    assert (await world.row(row))["status"] == "FAILED"
    sent_before = len(world.server.mails)

    body = await operator.reads("requeue", public_id(EMAIL, row), "--yes")
    assert body["sources"][1]["emails"]["requeued"] == 1
    waiting = await world.row(row)
    assert (waiting["status"], waiting["attempt_count"], waiting["error_message"]) == ("PENDING", 0, None)
    assert waiting["outcomes"] == {"0": "SENT", "2": "FAILED permanent: 550 no"}

    await world.drain()
    [mail] = world.server.mails[sent_before:]
    assert mail.recipients == ("bob@example.com",)
    assert (mail.reference, mail.to) == (
        public_id(EMAIL, row),
        ("ayse@example.com", "bob@example.com", "cem@example.com"),
    )
    ended = await world.row(row)
    assert (ended["status"], ended["outcomes"]["1"], ended["attempt_count"]) == ("FAILED", "SENT", 1)
    assert ended["error_message"] == "permanent: 1 of 3 recipients refused: 550 no"
    await operator.types("requeue", public_id(EMAIL, row), "--yes", exit_code=1)
    assert await world.row(row) == ended, "who is left was refused for good"


async def test_a_repaired_template_reaches_what_failed_by_it(operator: Operator, world: World) -> None:
    await push_template(world.own, "ORDER_SHIPPED", {"subject": "{{ missing }}", "text": "x"})
    row = await world.enqueue()
    await world.drain()
    assert (await world.row(row))["error_message"].startswith("render")
    await push_template(world.own, "ORDER_SHIPPED", {"subject": "Hello {{ orderNo }}", "text": "x"})

    await operator.types("requeue", "--template", "ORDER_SHIPPED", "--error", "RENDER", "--yes")
    await world.drain()

    assert [mail.subject for mail in world.server.mails] == ["Hello 98213"]
    assert (await world.row(row))["status"] == "SENT"


async def test_it_is_chosen_by_template_error_and_age(operator: Operator, world: World) -> None:
    wanted = await world.enqueue()
    old, other, error = await world.enqueue(), await world.enqueue(template="PASSWORD_CHANGED"), await world.enqueue()
    await fail(world, wanted)
    await fail(world, old, created_at=NOW - timedelta(hours=3))
    await fail(world, other)
    await fail(world, error, "config: sender")
    [event] = await add_set_aside(world.source)

    await operator.types("requeue", "--template", "ORDER_SHIPPED", "--error", "451 LATER", "--since", "2h", "--yes")

    assert (await world.row(wanted))["status"] == "PENDING"
    assert [(await world.row(each))["status"] for each in (old, other, error)] == ["FAILED"] * 3
    assert await world.source.fetchval("SELECT available_at = 'infinity' FROM ulak.outbox WHERE id = $1", event)


async def test_what_cannot_go_is_told_by_its_reason(operator: Operator, world: World) -> None:
    past = NOW - timedelta(hours=1)
    expired = await fail(world, await world.enqueue(), expires_at=past)
    over = await fail(world, await world.enqueue(), created_at=NOW - timedelta(hours=25))
    unknown = await fail(world, await world.enqueue(template="NOBODY"), "unknown_type: no type")
    sent = public_id(EMAIL, row := await world.enqueue())
    await world.update(row, status="SENT")
    [event] = await add_outbox(world.source)
    nowhere = new_id()
    names = [expired, over, unknown, sent, str(event), str(nowhere)]

    body = await operator.reads("requeue", *names, "--yes", exit_code=1)

    shop = body["sources"][1]
    assert {each["why"].partition(":")[0]: each["sample"] for each in shop["emails"]["refused"]} == {
        "its time to live is over": [expired, over],
        "there is no notification type NOBODY": [unknown],
        "it is SENT, and only what FAILED goes again": [sent],
    }
    assert [each["sample"] for each in shop["events"]["refused"]] == [[str(event)]]
    assert body["missing"] == [str(nowhere)]
    assert await world.statuses() == {"FAILED": 3, "SENT": 1}
    output = (await operator.types("requeue", *names, exit_code=1)).output
    assert f"cannot go again: 2 e-mails (such as {expired}): its time to live is over" in output
    assert f"no row {nowhere} in own, shop" in output


async def test_an_event_goes_out_and_its_dead_letter_is_closed(
    operator: Operator, pool: Pool, foreign_pool: Pool, make_reader: MakeReader
) -> None:
    [id_, other] = await add_set_aside(foreign_pool, 2)
    await pool.execute(
        "INSERT INTO ulak.dead_letters (topic, fingerprint, error_class, first_seen, last_seen) "
        "SELECT 'outbox', f, 'unknown_topic', now(), now() FROM unnest($1::bytea[]) AS f",
        [row_fingerprint("shop", id_), row_fingerprint("shop", other)],
    )
    broker = InMemoryProducer(topics=["orders"])

    await operator.types("requeue", str(id_), "--yes")
    await make_reader(broker, pool=foreign_pool, source="shop", keeps=True).round()

    assert [record.value for record in broker.records] == [b"0"]
    assert [row["id"] for row in await outbox(foreign_pool)] == [other]
    states = {row["fingerprint"]: row["state"] for row in await pool.fetch("SELECT * FROM ulak.dead_letters")}
    assert states == {row_fingerprint("shop", id_): "replayed", row_fingerprint("shop", other): "open"}


async def test_events_are_chosen_by_error_and_by_the_time_in_their_id(operator: Operator, foreign_pool: Pool) -> None:
    await add_set_aside(foreign_pool, error="unknown_topic: a")
    [plain] = await add_set_aside(foreign_pool, id=uuid4(), error="oversized: b")
    [new] = await add_set_aside(foreign_pool, error="oversized: c")

    body = await operator.reads("requeue", "--error", "Oversized", "--since", "1h", "--yes")

    events = body["sources"][1]["events"]
    assert [row["id"] for row in events["sample"]] == [str(new)]
    assert [(each["why"].partition(":")[0], each["sample"]) for each in events["refused"]] == [
        ("its id does not tell when it was written", [str(plain)])
    ]
    due = await foreign_pool.fetch("SELECT id, error FROM ulak.outbox WHERE available_at <= now()")
    assert [tuple(row) for row in due] == [(new, None)]


async def test_two_at_once_requeue_each_row_once(operator: Operator, world: World) -> None:
    await world.source.execute(
        "INSERT INTO ulak.email_messages (model, status, template, recipients, parameters, error_message) "
        "SELECT 'A', 'FAILED', 'ORDER_SHIPPED', '{}', '{}', 'exhausted' FROM generate_series(1, 2000)"
    )
    await add_set_aside(world.source, 3)

    bodies = await asyncio.gather(*(operator.runs("requeue", "--since", "1h", "--yes") for _ in range(2)))

    shops = [body["sources"][1] for body in bodies]
    assert sum(shop["emails"]["requeued"] for shop in shops) == 2000
    assert sum(shop["events"]["requeued"] for shop in shops) == 3
    assert await world.statuses() == {"PENDING": 2000}


async def test_a_source_that_is_down_is_told_and_the_others_are_requeued(operator: Operator, world: World) -> None:
    row = await world.enqueue()
    await fail(world, row)
    operator.lose()
    body = await operator.reads("requeue", "--since", "1h", "--yes", exit_code=1)
    assert [problem["source"] for problem in body["problems"]] == ["away"]
    assert (await world.row(row))["status"] == "PENDING"


async def test_where_nothing_failed_it_says_so(operator: Operator) -> None:
    assert (await operator.types("requeue")).output == "Nothing that failed fits.\n"


async def test_what_would_be_everything_or_contradicts_itself_is_refused(operator: Operator) -> None:
    with pytest.raises(CommandError, match="say what to requeue"):
        await operator.types("requeue", "--yes")
    with pytest.raises(CommandError, match="leave --template"):
        await operator.types("requeue", str(new_id()), "--error", "x")
    with pytest.raises(CommandError, match="is not an id"):
        await operator.types("requeue", "eml_x")
    output = (await operator.types("requeue", "--since", "yesterday", exit_code=2)).output
    assert "30m" in output
