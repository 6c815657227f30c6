"""The end of a message comes back to its row, exactly when all of it is over."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from services.relay.intake.write_back import Closing, WriteBack
from services.relay.source import Source
from shared.core.address import target_key
from shared.core.sealing import KeyRing
from shared.delivery.requeue import requeue_emails
from shared.ledger.ask import NO_SOURCE
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource
from tests.integration.ledger.world import ask, ledger
from tests.integration.relay.intake.conftest import MakeIntake, Shop

pytestmark = pytest.mark.postgres


@pytest.fixture
def deliver(own: Pool, key_ring: KeyRing) -> "Deliver":
    return Deliver(own, key_ring)


class Deliver:
    """Settles deliveries as a worker would."""

    def __init__(self, own: Pool, ring: KeyRing) -> None:
        self._own = own
        self._ring = ring

    async def __call__(self, name: str, status: str = "SENT", reason: str | None = None) -> None:
        await self._own.execute(
            "UPDATE ulak.deliveries SET status = $2, reason = $3, attempt = attempt + 1, provider = 'smtp', "
            "provider_message_id = $4, updated_at = now() WHERE target_key = $1",
            target_key(self._ring, "EMAIL", f"{name}@example.com"),
            status,
            reason,
            f"id-{name}",
        )


async def open_links(own: Pool) -> int:
    found: int = await own.fetchval("SELECT count(*) FROM ulak.email_intakes WHERE settled_at IS NULL")
    return found


async def test_a_row_is_sent_once_everybody_has_it(
    own: Pool, shop: Shop, make_intake: MakeIntake, write_back: WriteBack, deliver: Deliver
) -> None:
    id_ = await shop.enqueue("ada@example.com", "bob@example.com")
    await make_intake().round()
    await deliver("ada")
    await write_back.round()
    assert (await shop.row(id_))["status"] == "SENDING", "one of two"

    await deliver("bob")
    await write_back.round()

    row = await shop.row(id_)
    assert (row["status"], row["error_message"], row["locked_at"]) == ("SENT", None, None)
    assert row["outcomes"] == {"0": "SENT", "1": "SENT"}
    assert (row["provider"], row["provider_message_id"], row["attempt_count"]) == ("smtp", "id-ada", 1)
    assert row["sent_at"] is not None
    assert await open_links(own) == 0


async def test_a_row_is_failed_with_what_became_of_each(
    own: Pool, shop: Shop, make_intake: MakeIntake, write_back: WriteBack, deliver: Deliver
) -> None:
    id_ = await shop.enqueue("ada@example.com", "bob@example.com", "cai@example.com")
    await make_intake().round()
    await deliver("ada")
    await deliver("bob", "UNKNOWN", "ambiguous")
    await deliver("cai", "SKIPPED", "cancelled")

    await write_back.round()

    row = await shop.row(id_)
    assert (row["status"], row["sent_at"], row["parameters"]) == ("FAILED", None, None)
    assert row["error_message"] == "ambiguous: 2 of 3 recipients refused: ambiguous"
    assert row["outcomes"] == {"0": "SENT", "1": "FAILED ambiguous", "2": "FAILED cancelled"}


async def test_killed_between_its_two_commits_it_closes_the_link_the_next_time(
    own: Pool, shop: Shop, make_intake: MakeIntake, write_back: WriteBack, deliver: Deliver
) -> None:
    id_ = await shop.enqueue()
    await make_intake().round()
    await deliver("ada")
    await write_back.round()
    await own.execute("UPDATE ulak.email_intakes SET settled_at = NULL")  # as if only the row had been committed
    before = await shop.row(id_)

    await write_back.round()

    assert await shop.row(id_) == before
    assert await open_links(own) == 0


async def test_an_end_that_came_before_the_row_said_anything_is_still_told(
    own: Pool, shop: Shop, make_intake: MakeIntake, write_back: WriteBack, deliver: Deliver
) -> None:
    """The intake died after the ledger's commit, and the mail was sent before anybody took the row again."""
    id_ = await shop.enqueue()
    await make_intake().round()
    await shop.pool.execute("UPDATE ulak.email_messages SET status = 'PENDING', notification_id = NULL")
    await deliver("ada")

    await write_back.round()
    assert ((await shop.row(id_))["status"], await open_links(own)) == ("PENDING", 1)

    await make_intake().round()
    await write_back.round()
    assert ((await shop.row(id_))["status"], await open_links(own)) == ("SENT", 0)


async def test_rows_that_are_no_longer_ours_are_left_as_they_are(
    own: Pool, shop: Shop, make_intake: MakeIntake, write_back: WriteBack, deliver: Deliver
) -> None:
    taken, gone = await shop.enqueue(), await shop.enqueue()
    await make_intake().round()
    await shop.pool.execute("UPDATE ulak.email_messages SET notification_id = $2 WHERE id = $1", taken, UUID(int=7))
    await shop.pool.execute("DELETE FROM ulak.email_messages WHERE id = $1", gone)
    await deliver("ada")

    await write_back.round()

    assert (await shop.row(taken))["status"] == "SENDING"
    assert await open_links(own) == 0, "and nobody asks for them for ever"


async def test_many_that_wait_do_not_hide_one_that_is_over(
    own: Pool, shop: Shop, source: Source, make_intake: MakeIntake, deliver: Deliver, key_ring: KeyRing
) -> None:
    for number in range(7):
        await shop.enqueue(f"waiting{number}@example.com")
        await make_intake().round()
    last = await shop.enqueue()
    await make_intake().round()
    await deliver("ada")
    paging = WriteBack(own, source, FixedRingSource(key_ring), page=3, clock=lambda: datetime.now(UTC))

    rounds = [await paging.round() for _ in range(3)]

    assert rounds == [True, True, False]
    assert (await shop.row(last))["status"] == "SENT"


async def test_a_requeued_row_is_told_its_new_end(
    own: Pool, shop: Shop, make_intake: MakeIntake, write_back: WriteBack, deliver: Deliver
) -> None:
    """As `ulak outbox requeue` does it: the row first and committed last."""
    id_ = await shop.enqueue()
    await make_intake().round()
    await deliver("ada", "FAILED", "exhausted")
    await write_back.round()
    row = await shop.row(id_)
    assert (row["status"], row["error_message"]) == ("FAILED", "exhausted")

    async with shop.pool.acquire() as theirs, theirs.transaction():
        await theirs.execute(
            "UPDATE ulak.email_messages SET status = 'SENDING' WHERE id = $1 AND status = 'FAILED'", id_
        )
        async with own.acquire() as ours, ours.transaction():
            await requeue_emails(ours, [row["notification_id"]], now=datetime.now(UTC))
    await write_back.round()
    assert (await shop.row(id_))["status"] == "SENDING"
    await deliver("ada")
    await write_back.round()

    row = await shop.row(id_)
    assert (row["status"], row["error_message"]) == ("SENT", None)


async def test_what_came_by_the_api_has_no_row_to_tell(own: Pool, key_ring: KeyRing, deliver: Deliver) -> None:
    application = await own.fetchval("INSERT INTO ulak.applications (name) VALUES ('x') RETURNING id")
    asked = ask(key_ring, application, source=NO_SOURCE)
    await ledger(own, key_ring).enter([asked])
    closing = Closing(own, page=10)

    await closing.round()
    assert await open_links(own) == 1
    await deliver("ada")
    await closing.round()
    assert await open_links(own) == 0
