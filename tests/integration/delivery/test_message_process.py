"""Messages with several recipients as they run: a worker process, the real SMTP client, a mail server, kill -9."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from shared.core.email import AttachmentRef, EmailRequest
from shared.core.identifier import NOTIFICATION, public_id
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.mailing import Mailing, make_mailing
from tests.integration.delivery.test_worker_process import Workers, create, publish, reap, workers
from tests.integration.delivery.world import Seeded, until
from tests.integration.ledger.world import add_application, add_catalogue, request

__all__ = ["workers"]

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

LANE = DEFAULT_CHANNELS.lane("email-tx")
ADA, BEN, CEM = "ada@example.com", "ben@example.com", "cem@example.com"
EVERYONE = (ADA, BEN, CEM)


@pytest.fixture
async def mailing(pool: Pool, key_ring: KeyRing, kafka_settings: KafkaSettings) -> Mailing:
    """Enters messages and reads what became of them; the worker is the process."""
    await add_catalogue(pool)
    await create(kafka_settings, LANE)
    return make_mailing(pool, key_ring, await add_application(pool))


@pytest.fixture
def mail_workers(workers: Workers, tmp_path: Path) -> Workers:
    files = tmp_path / "files"
    files.mkdir()
    (files / "invoice.pdf").write_bytes(b"%PDF-1.7 invoice")
    more = {"ULAK_DEFAULT_LOCALE": "en", "ULAK_STORAGE_FOLDER": str(files)}
    return replace(workers, environment={**workers.environment, **more})


async def all_in(mailing: Mailing, message: Seeded, *statuses: str) -> None:
    async def holds() -> bool:
        return {status for status, _, _ in (await mailing.statuses(message)).values()} <= set(statuses)

    await until(holds, timeout_sec=90, what=f"statuses {statuses}")


def attached(ref: str, *to: str) -> EmailRequest:
    file = AttachmentRef("Fatura.pdf", "application/pdf", ref)
    return request(*to, attachments=(file,))


async def test_250_451_550_and_the_retry_goes_to_the_one_who_waits(
    mail_workers: Workers, simulator: Simulator, mailing: Mailing, kafka_settings: KafkaSettings
) -> None:
    await simulator.fault(
        "smtp", times=1, match={"to": BEN}, smtp={"phase": "rcpt", "code": 451, "text": "4.7.1 later"}
    )
    message = await mailing.enter(ADA, BEN, "unknown-cem@example.com")
    await publish(kafka_settings, message)
    await mail_workers.start(LANE.name)
    await all_in(mailing, message, "SENT", "FAILED")
    assert await mailing.statuses(message) == {
        ADA: ("SENT", None, 1),
        BEN: ("SENT", None, 2),
        "unknown-cem@example.com": ("FAILED", "target_gone", 1),
    }
    first, second = (received["content"] for received in await simulator.accepted("smtp"))
    assert (first["rcptTo"], second["rcptTo"]) == ([ADA], [BEN])
    assert first["headers"]["Message-ID"] == second["headers"]["Message-ID"]
    assert first["headers"]["To"] == second["headers"]["To"]
    assert not await mailing.kept(message)


async def test_killed_after_the_mail_server_took_it(
    mail_workers: Workers, simulator: Simulator, mailing: Mailing, kafka_settings: KafkaSettings, pool: Pool
) -> None:
    """At least once: all are sent to again, under the same Message-ID, in one mail."""
    await simulator.fault("smtp", times=1, delayMs=60_000, smtp={"phase": "dataEnd"})
    message = await mailing.enter(*EVERYONE)
    first = await mail_workers.start(LANE.name)
    await publish(kafka_settings, message)

    async def with_the_server() -> bool:
        return len(await simulator.messages("smtp")) == 1

    await until(with_the_server, what="the mail at the server")
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    assert {status for status, _, _ in (await mailing.statuses(message)).values()} == {"SENDING"}

    await mail_workers.start(LANE.name)  # it gets the same hint again, and must not send on it
    await reap(pool, kafka_settings)
    await all_in(mailing, message, "SENT")
    received = [entry["content"] for entry in await simulator.messages("smtp")]
    assert [sorted(mail["rcptTo"]) for mail in received] == [sorted(EVERYONE)] * 2
    reference = public_id(NOTIFICATION, message.key.notification_id)
    assert {mail["headers"]["Message-ID"] for mail in received} == {f"<{reference}@shop.example>"}


async def test_killed_between_the_servers_word_and_the_record(
    mail_workers: Workers, simulator: Simulator, mailing: Mailing, kafka_settings: KafkaSettings, pool: Pool
) -> None:
    message = await mailing.enter(*EVERYONE)
    await simulator.fault("smtp", times=1, delayMs=500, smtp={"phase": "dataEnd"})
    first = await mail_workers.start(LANE.name)
    await publish(kafka_settings, message)
    await all_in(mailing, message, "SENDING")
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM ulak.deliveries FOR UPDATE")  # its record has to wait

        async def waits() -> bool:
            return bool(
                await pool.fetchval(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND query LIKE '%record_outcomes%'"
                )
            )

        await until(waits, what="the blocked record")
        first.send_signal(signal.SIGKILL)
        first.wait(10)
    await mail_workers.start(LANE.name)
    await reap(pool, kafka_settings)
    await all_in(mailing, message, "SENT")
    assert [sorted(entry["content"]["rcptTo"]) for entry in await simulator.accepted("smtp")] == [sorted(EVERYONE)] * 2
    assert await mailing.statuses(message) == dict.fromkeys(EVERYONE, ("SENT", None, 2))


async def test_files_are_read_when_the_mail_is_sent(
    mail_workers: Workers, simulator: Simulator, mailing: Mailing, kafka_settings: KafkaSettings
) -> None:
    there = await mailing.enter(asked=attached("file:invoice.pdf", ADA, BEN))
    missing = await mailing.enter(asked=attached("file:no-such.pdf", CEM))
    await publish(kafka_settings, there, missing)
    await mail_workers.start(LANE.name)
    await all_in(mailing, there, "SENT")
    await all_in(mailing, missing, "FAILED")
    [received] = await simulator.accepted("smtp")
    assert [entry["name"] for entry in received["content"]["attachments"]] == ["Fatura.pdf"]
    row = (await mailing.rows(missing))[CEM]
    assert row["reason"] == "attachment", "the storage's fault, not the provider's"
    assert row["last_error"].startswith("attachment 1 of 1 is missing")


async def test_storage_that_cannot_be_asked_is_asked_again(
    mail_workers: Workers, simulator: Simulator, mailing: Mailing, kafka_settings: KafkaSettings, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    away = folder.rename(tmp_path / "away")
    message = await mailing.enter(asked=attached("file:invoice.pdf", ADA, BEN))
    await publish(kafka_settings, message)
    await mail_workers.start(LANE.name)

    async def tried() -> bool:
        return {attempt for _, _, attempt in (await mailing.statuses(message)).values()} == {1}

    await until(tried, timeout_sec=90, what="the first attempt")
    away.rename(folder)
    await all_in(mailing, message, "SENT")
    assert await mailing.statuses(message) == dict.fromkeys((ADA, BEN), ("SENT", None, 2))
    assert len(await simulator.accepted("smtp")) == 1
