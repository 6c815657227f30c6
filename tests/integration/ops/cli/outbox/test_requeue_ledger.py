"""`ulak outbox requeue` of model B: through the ledger, with the row following it to the end."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.relay.intake.write_back import WriteBack
from shared.core.address import target_key
from shared.core.identifier import EMAIL, public_id
from shared.core.sealing import KeyRing
from shared.delivery.requeue import requeue_emails
from shared.ledger.ask import NO_SOURCE
from shared.postgres.audit import audit
from shared.postgres.pool import Pool
from tests.integration.ledger.world import add_application, add_template, ask, deliveries, ledger
from tests.integration.ops.cli.outbox.conftest import Operator
from tests.integration.relay.intake.conftest import MakeIntake, Shop

pytestmark = pytest.mark.postgres


class Workers:
    """Settles deliveries as workers do, and lets the write-back tell the rows."""

    def __init__(self, own: Pool, ring: KeyRing, write_back: WriteBack) -> None:
        self._own = own
        self._ring = ring
        self._write_back = write_back

    async def settle(self, name: str, status: str = "SENT", reason: str | None = None) -> None:
        await self._own.execute(
            "UPDATE ulak.deliveries SET status = $2, reason = $3, attempt = attempt + 1, updated_at = now() "
            "WHERE target_key = $1",
            target_key(self._ring, "EMAIL", f"{name}@example.com"),
            status,
            reason,
        )

    async def tell(self) -> None:
        while await self._write_back.round():
            pass


@pytest.fixture
def workers(own: Pool, key_ring: KeyRing, write_back: WriteBack) -> Workers:
    return Workers(own, key_ring, write_back)


async def failed(shop: Shop, make_intake: MakeIntake, workers: Workers) -> UUID:
    """A mail to Ada, who has it, and Bob, who could not be reached."""
    row = await shop.enqueue("ada@example.com", "bob@example.com")
    await make_intake().round()
    await workers.settle("ada")
    await workers.settle("bob", "FAILED", "exhausted")
    await workers.tell()
    assert (await shop.row(row))["status"] == "FAILED"
    return row


async def statuses(own: Pool, row: UUID) -> list[str]:
    found = await own.fetchval("SELECT notification_id FROM ulak.email_intakes WHERE source_id = $1", row)
    return sorted(each["status"] for each in await deliveries(own, found))


async def test_it_goes_to_those_who_do_not_have_it_and_the_row_is_told(
    operator: Operator, own: Pool, shop: Shop, make_intake: MakeIntake, workers: Workers
) -> None:
    row = await failed(shop, make_intake, workers)
    await own.execute("DELETE FROM ulak.outbox")

    dry = await operator.reads("requeue", public_id(EMAIL, row))
    assert dry["sources"][1]["emails"]["requeued"] == 1
    assert (await shop.row(row))["status"] == "FAILED"
    assert await statuses(own, row) == ["FAILED", "SENT"]

    done = await operator.reads("requeue", public_id(EMAIL, row), "--yes")
    assert done["sources"][1]["emails"] == dry["sources"][1]["emails"]
    waiting = await shop.row(row)
    assert (waiting["status"], waiting["error_message"]) == ("SENDING", None)
    assert await statuses(own, row) == ["PENDING", "SENT"]
    assert [each["topic"] for each in await own.fetch("SELECT topic FROM ulak.outbox")] == ["email-tx"]

    await workers.tell()
    assert (await shop.row(row))["status"] == "SENDING", "it is not over yet"
    await workers.settle("bob")
    await workers.tell()
    assert (await shop.row(row))["status"] == "SENT"
    async with own.acquire() as connection:
        assert (await audit(connection, datetime.now(UTC))).clean


async def test_what_was_refused_at_the_intake_is_taken_in_again(
    operator: Operator, own: Pool, shop: Shop, make_intake: MakeIntake, workers: Workers
) -> None:
    row = await shop.enqueue(template="BARE")
    await make_intake().round()
    assert (await shop.row(row))["error_message"].startswith("no_template")
    await add_template(own, "BARE")

    await operator.types("requeue", "--error", "no_template", "--yes")
    await make_intake().round()
    await workers.settle("ada")
    await workers.tell()

    assert (await shop.row(row))["status"] == "SENT"


async def test_a_kill_between_the_two_commits_is_followed_up_by_the_next_run(
    operator: Operator, own: Pool, shop: Shop, make_intake: MakeIntake, workers: Workers
) -> None:
    row = await failed(shop, make_intake, workers)
    link = (await shop.row(row))["notification_id"]
    async with own.acquire() as connection, connection.transaction():
        await requeue_emails(connection, [link], now=datetime.now(UTC))  # and no word to the row
    await workers.tell()
    await workers.settle("bob")
    assert (await shop.row(row))["status"] == "FAILED"

    body = await operator.reads("requeue", public_id(EMAIL, row), "--yes")
    assert (body["sources"][1]["emails"]["requeued"], body["sources"][1]["emails"]["followed"]) == (0, 1)
    await workers.tell()

    assert (await shop.row(row))["status"] == "SENT"
    assert await statuses(own, row) == ["SENT", "SENT"], "nobody was sent it again"


async def test_what_cannot_go_is_told_by_its_reason(
    operator: Operator, own: Pool, shop: Shop, make_intake: MakeIntake, workers: Workers
) -> None:
    row = await failed(shop, make_intake, workers)
    expired = "UPDATE ulak.deliveries SET expires_at = $1 WHERE status = 'FAILED'"
    await own.execute(expired, datetime.now(UTC) - timedelta(hours=1))
    for reason in ("its time to live is over", "nothing is left to send", "the ledger has it no more"):
        before = await shop.row(row)
        body = await operator.reads("requeue", public_id(EMAIL, row), "--yes", exit_code=1)
        [refused] = body["sources"][1]["emails"]["refused"]
        assert refused["why"].startswith(reason)
        assert await shop.row(row) == before
        await own.execute("UPDATE ulak.deliveries SET reason = 'permanent' WHERE status = 'FAILED'")
        if reason.startswith("nothing"):
            await own.execute("DELETE FROM ulak.deliveries")


async def test_two_at_once_send_it_once(
    operator: Operator, own: Pool, shop: Shop, make_intake: MakeIntake, workers: Workers
) -> None:
    await failed(shop, make_intake, workers)
    await own.execute("DELETE FROM ulak.outbox")

    bodies = await asyncio.gather(*(operator.runs("requeue", "--since", "1h", "--yes") for _ in range(3)))

    assert sum(body["sources"][1]["emails"]["requeued"] for body in bodies) == 1
    assert await own.fetchval("SELECT count(*) FROM ulak.outbox") == 1


async def test_what_came_by_the_api_is_requeued_by_its_id(
    operator: Operator, own: Pool, key_ring: KeyRing, workers: Workers
) -> None:
    application = await add_application(own)
    asked = ask(key_ring, application, source=NO_SOURCE)
    await ledger(own, key_ring).enter([asked])
    name = public_id(EMAIL, asked.source_id)
    waits = await operator.reads("requeue", name, exit_code=1)
    assert waits["sources"][0]["emails"]["refused"][0]["why"] == "it is under way, or everybody has it"
    await workers.settle("ada", "FAILED", "config")

    body = await operator.reads("requeue", name, "--yes")

    assert body["sources"][0]["emails"]["requeued"] == 1
    assert [each["status"] for each in await deliveries(own, asked.id)] == ["PENDING"]
