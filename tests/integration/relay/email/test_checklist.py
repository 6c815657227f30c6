"""The checklist of seed 000, section 13, line by line. Every test's name says its line."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from services.relay.email.archive import NoArchive
from services.relay.email.gauges import EmailGauges
from services.relay.email.outlet import TimedSender
from services.relay.email.retention import Retention
from services.relay.email.store import EmailStore
from services.relay.scan import OLDEST
from shared.core.outcome import Permanent, Transient
from shared.core.storage import Storage
from shared.postgres import producer
from shared.providers.email.smtp.client import SMTP
from shared.providers.email.smtp.settings import SmtpSettings
from shared.runtime import metrics
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from shared.wire.channel import MessageClass
from tests.integration.delivery.conftest import Simulator
from tests.integration.relay.email.world import World, push_template

pytestmark = pytest.mark.postgres

AYSE = "ayse@example.com"
ATTACHMENT = {"filename": "fatura.pdf", "contentType": "application/pdf", "storageRef": "file:outgoing/fatura.pdf"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "outgoing").mkdir()
    return tmp_path


@pytest.fixture
async def storage(files: Path) -> AsyncIterator[Storage]:
    async with open_storage(StorageSettings(folder=files, owned="file:outgoing/")) as opened:
        yield opened


@pytest.fixture
def producer_connection(foreign_database: str) -> "psycopg.Connection":
    """A service's own, blocking connection; no client of Ulak's in it."""
    return psycopg.connect(foreign_database)


ENQUEUE = "SELECT ulak.enqueue_email(ARRAY['ayse@example.com'], 'ORDER_SHIPPED', '{\"orderNo\": \"1\"}', model => 'A')"


async def test_line_1_the_producer_does_not_wait_one_insert_and_sending_is_later(
    world: World, producer_connection: psycopg.Connection
) -> None:
    """No relay runs and no provider is there: the call is one statement that answers at once."""
    with producer_connection as connection:
        connection.execute(ENQUEUE)
    assert await world.statuses() == {"PENDING": 1}
    await world.drain()
    assert await world.statuses() == {"SENT": 1}


@pytest.mark.parametrize("commits", [True, False])
async def test_line_2_the_record_is_born_in_the_transaction_of_what_it_tells(
    world: World, producer_connection: psycopg.Connection, commits: bool
) -> None:
    with producer_connection as connection:
        connection.execute("CREATE TABLE orders (order_no TEXT)")
        connection.commit()
        connection.execute("INSERT INTO orders VALUES ('1')")
        connection.execute(ENQUEUE)
        await world.drain()
        assert world.server.mails == [], "nothing is seen before the commit"
        connection.commit() if commits else connection.rollback()
    await world.drain()
    assert len(world.server.mails) == commits
    assert await world.source.fetchval("SELECT count(*) FROM orders") == commits


async def test_line_3_recipients_are_a_snapshot_of_the_moment_it_was_enqueued(world: World) -> None:
    row_id = await world.enqueue(AYSE, cc=["bora@example.com"], bcc=["cem@example.com"], user_id="7")
    await world.own.execute("INSERT INTO ulak.recipients (external_id, email_key) VALUES ('7', 'another address')")
    await world.drain()
    [mail] = world.server.mails
    assert mail.recipients == (AYSE, "bora@example.com", "cem@example.com")
    assert (await world.row(row_id))["recipients"], "and the record says where it went"


async def test_line_4_attachments_stand_in_the_row_as_references_and_are_read_when_it_is_sent(
    world: World, storage: Storage, files: Path, simulator: Simulator
) -> None:
    row_id = await world.enqueue(AYSE, attachments=[ATTACHMENT])
    assert (await world.row(row_id))["attachments"] == [ATTACHMENT]
    (files / "outgoing/fatura.pdf").write_bytes(b"%PDF-1.7 written after the row")
    async with SMTP.open(simulator.smtp()) as sender:
        await world.drain(sender=sender, storage=storage)
    [mail] = await simulator.accepted("smtp")
    [attachment] = mail["content"]["attachments"]
    assert (attachment["name"], attachment["contentType"]) == ("fatura.pdf", "application/pdf")
    assert attachment["sha256"] == hashlib.sha256(b"%PDF-1.7 written after the row").hexdigest()


async def test_line_5_the_claim_is_atomic_and_conditional(world: World) -> None:
    ids = [await world.enqueue(AYSE) for _ in range(40)]
    store = EmailStore(world.source)
    claims = await asyncio.gather(
        *(store.claim(MessageClass.TX, floor=OLDEST, limit=20, lease_sec=120) for _ in range(4))
    )
    claimed = [row.id for claim in claims for row in claim.rows]
    assert len(claimed) == len(set(claimed))
    again = await store.claim(MessageClass.TX, floor=OLDEST, limit=100, lease_sec=120)
    assert {*claimed, *(row.id for row in again.rows)} == set(ids)
    assert not (await store.claim(MessageClass.TX, floor=OLDEST, limit=100, lease_sec=120)).rows


async def test_line_6_what_is_stuck_in_SENDING_is_reaped(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    await EmailStore(world.source).claim(MessageClass.TX, floor=OLDEST, limit=20, lease_sec=120)
    await world.reaper().round()
    assert (await world.row(row_id))["status"] == "SENDING", "its two minutes are not over"
    await world.update(row_id, lease_until=datetime.now(UTC) - timedelta(seconds=1))
    await world.reaper().round()
    assert (await world.row(row_id))["status"] == "PENDING"


async def test_line_6_a_provider_that_never_answers_is_not_waited_for(world: World) -> None:
    """It takes the connection and says nothing: the call has a limit well within the lease."""
    connected: list[asyncio.StreamWriter] = []

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = SmtpSettings(host="127.0.0.1", port=port, security="none", from_address="no-reply@shop.example")
    row_id = await world.enqueue(AYSE)
    async with SMTP.open(settings) as sender, asyncio.timeout(60):
        await world.dispatcher(sender=sender, send_deadline_sec=1.0).round()
    row = await world.row(row_id)
    assert (row["status"], row["claim_id"]) == ("PENDING", None)
    assert connected
    for writer in connected:
        writer.transport.abort()
    server.close()
    await server.wait_closed()


async def test_line_7_at_least_once_with_the_same_token_at_every_attempt(world: World) -> None:
    """The decision is at least once; the token is the Message-ID, made of the row's id. The window: test_crash.py."""
    await world.enqueue(AYSE)
    row_id = await world.enqueue("bora@example.com")
    world.server.answers["bora@example.com"] = [Transient("end 451"), Transient("end 451")]
    for _ in range(3):
        await world.due_now(row_id)
        await world.drain()
    references = [mail.reference for mail in world.server.mails if mail.recipients == ("bora@example.com",)]
    assert len(references) == 3
    assert len(set(references)) == 1
    assert len({mail.reference for mail in world.server.mails}) == 2


async def test_line_8_retries_have_an_end_and_growing_pauses(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [Transient("end 451")] * 8
    pauses: list[float] = []
    for _ in range(8):
        await world.due_now(row_id)
        before = datetime.now(UTC)
        await world.drain()
        pauses.append(((await world.row(row_id))["next_attempt_at"] - before).total_seconds())
    assert [round(pause, -1) for pause in pauses[:7]] == [10, 20, 40, 80, 160, 320, 640]
    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("FAILED", 8)


async def test_line_8_a_permanent_reply_is_FAILED_at_once(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [Permanent("end 554")]
    await world.drain()
    assert (await world.row(row_id))["status"] == "FAILED"
    assert len(world.server.mails) == 1


async def test_line_9_the_template_is_rendered_when_it_is_sent(world: World) -> None:
    """A template that is repaired reaches the mails that wait."""
    await world.enqueue(AYSE)
    await push_template(world.own, "ORDER_SHIPPED", {"subject": "Onarıldı {{ orderNo }}", "text": "x"})
    await world.drain()
    assert [mail.subject for mail in world.server.mails] == ["Onarıldı 98213"]


async def test_line_9_a_render_error_is_permanent_and_a_repair_can_be_requeued(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    await push_template(world.own, "ORDER_SHIPPED", {"subject": "{{ orderNo.a.b }}", "text": "x"})
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("FAILED", 0)
    assert row["error_message"].startswith("render: ")
    await push_template(world.own, "ORDER_SHIPPED", {"subject": "{{ orderNo }}", "text": "x"})
    await world.update(row_id, status="PENDING")
    await world.drain()
    assert (await world.row(row_id))["status"] == "SENT"


async def test_line_10_poll_or_broker_is_the_installations_choice_and_the_messages(
    world: World, producer_connection: psycopg.Connection
) -> None:
    with producer_connection as connection:
        connection.execute(producer.ddl(email_model="A").encode())
        connection.execute("SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'ORDER_SHIPPED', '{\"orderNo\": 1}')")
        connection.execute(
            "SELECT ulak.enqueue_email(ARRAY['b@example.com'], 'ORDER_SHIPPED', '{\"orderNo\": 1}', model => 'B')"
        )
    await world.drain()
    assert [mail.recipients for mail in world.server.mails] == [("a@example.com",)]
    assert await world.source.fetchval("SELECT status FROM ulak.email_messages WHERE model = 'B'") == "PENDING"


async def test_line_11_old_rows_and_their_files_go_in_pieces(world: World, storage: Storage, files: Path) -> None:
    for number in range(25):
        name = f"outgoing/{number}.pdf"
        (files / name).write_bytes(b"%PDF")
        row_id = await world.enqueue(AYSE, attachments=[{**ATTACHMENT, "storageRef": f"file:{name}"}])
        await world.update(row_id, status="SENT", created_at=datetime.now(UTC) - timedelta(days=91))
    settings = world.settings.model_copy(update={"retention_batch": 10})
    retention = Retention("shop", world.source, settings, storage=storage, archive=NoArchive())
    left = []
    for _ in range(3):
        await retention.round()
        left.append(await world.source.fetchval("SELECT count(*) FROM ulak.email_messages"))
    assert left == [15, 5, 0]
    assert list((files / "outgoing").iterdir()) == []


async def test_line_12_oldest_pending_failed_rate_and_send_duration_are_measured(world: World) -> None:
    def ended(status: str, reason: str) -> float:
        return float(metrics.EMAIL_ENDED.labels(status, reason)._value.get())

    def sends() -> float:
        [family] = metrics.EMAIL_SEND.collect()
        return sum(sample.value for sample in family.samples if sample.name.endswith("_count"))

    row_id = await world.enqueue(AYSE)
    await world.update(row_id, next_attempt_at=datetime.now(UTC) - timedelta(minutes=5))
    gauges = EmailGauges("shop", EmailStore(world.source), sends=True)
    await gauges.round()
    assert 300 <= metrics.EMAIL_OLDEST.labels("shop")._value.get() < 330
    await world.enqueue("bora@example.com")
    world.server.answers["bora@example.com"] = [Permanent("end 554")]
    before = ended("SENT", ""), ended("FAILED", "permanent"), sends()
    await world.drain(sender=TimedSender(world.server))
    assert (ended("SENT", ""), ended("FAILED", "permanent")) == (before[0] + 1, before[1] + 1)
    assert sends() > before[2]
    await gauges.round()
    assert metrics.EMAIL_OLDEST.labels("shop")._value.get() == 0
