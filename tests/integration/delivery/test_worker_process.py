"""The worker as a process: the whole way from hint to provider, and kill -9 at each arrow of one attempt."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.relay.reaper import Reaper
from shared.core.lifecycle import DeliveryStatus
from shared.core.sealing import KeyRing
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.pool import Pool
from shared.runtime.keyring import ring_json
from shared.wire.channel import DEFAULT_CHANNELS, Lane, MessageClass, Promise
from shared.wire.message import encode
from shared.wire.topic import DELIVERY_EVENTS, TopicSpec
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.world import Seeded, Seeder, until
from tests.integration.plain_http import plain_client
from tests.ports import free_port

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

_ROOT = Path(__file__).parents[3]


@dataclass
class Workers:
    """Starts worker processes against the test's own database, topics and keys."""

    environment: Mapping[str, str]
    folder: Path
    running: list[subprocess.Popen[bytes]]

    async def start(self, *lanes: str) -> subprocess.Popen[bytes]:
        """A process whose consumers have joined."""
        port = free_port()
        environment = {**os.environ, **self.environment, "ULAK_HEALTH_PORT": str(port)}
        arguments = [part for lane in lanes for part in ("--lane", lane)]
        log = self.folder / f"worker-{len(self.running)}.log"
        process = _launch(arguments, environment, log)
        self.running.append(process)

        async def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                async with plain_client(trust_env=False) as client:
                    return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
            except httpx.HTTPError:
                return False

        await until(ready, timeout_sec=90, what="the worker's readiness")
        return process


def _launch(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "services.workers", *arguments],
            cwd=_ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


@asynccontextmanager
async def producing(settings: KafkaSettings) -> AsyncIterator[Producer]:
    async with Producer.open(settings, name="test") as producer:
        yield producer


def simulator_environment(simulator: Simulator) -> dict[str, str]:
    smtp, apns, fcm, twilio = simulator.smtp(), simulator.apns(), simulator.fcm(), simulator.twilio()
    web_push = simulator.webpush()
    assert twilio.auth_token is not None
    return {
        "ULAK_SMTP_HOST": str(smtp.host),
        "ULAK_SMTP_PORT": str(smtp.port),
        "ULAK_SMTP_FROM_ADDRESS": str(smtp.from_address),
        "ULAK_SMTP_CA_FILE": str(smtp.ca_file),
        "ULAK_APNS_KEY_FILE": str(apns.key_file),
        "ULAK_APNS_KEY_ID": str(apns.key_id),
        "ULAK_APNS_TEAM_ID": str(apns.team_id),
        "ULAK_APNS_TOPIC": str(apns.topic),
        "ULAK_APNS_BASE_URL": apns.base_url,
        "ULAK_APNS_CA_FILE": str(apns.ca_file),
        "ULAK_FCM_SERVICE_ACCOUNT_FILE": str(fcm.service_account_file),
        "ULAK_FCM_BASE_URL": fcm.base_url,
        "ULAK_FCM_CA_FILE": str(fcm.ca_file),
        "ULAK_WEBPUSH_VAPID_KEY_FILE": str(web_push.vapid_key_file),
        "ULAK_WEBPUSH_VAPID_SUBJECT": str(web_push.vapid_subject),
        "ULAK_WEBPUSH_CA_FILE": str(web_push.ca_file),
        "ULAK_DEVICE_TRUSTED_PUSH_HOSTS": web_push.trusted_push_hosts,
        "ULAK_TWILIO_ACCOUNT_SID": str(twilio.account_sid),
        "ULAK_TWILIO_AUTH_TOKEN": twilio.auth_token.get_secret_value(),
        "ULAK_TWILIO_FROM_NUMBER": str(twilio.from_number),
        "ULAK_TWILIO_BASE_URL": twilio.base_url,
    }


@pytest.fixture
def workers(
    simulator: Simulator,
    database: str,
    kafka_settings: KafkaSettings,
    redis_url: str,
    key_prefix: str,
    key_ring: KeyRing,
    tmp_path: Path,
) -> Iterator[Workers]:
    environment = {
        **simulator_environment(simulator),
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka_settings.topic_prefix,
        "ULAK_KAFKA_SESSION_TIMEOUT_MS": "6000",
        "ULAK_KAFKA_HEARTBEAT_INTERVAL_MS": "1000",
        "ULAK_REDIS_URL": redis_url,
        "ULAK_REDIS_KEY_PREFIX": key_prefix,
        "ULAK_KEY_RING": ring_json(key_ring).decode(),
    }
    made = Workers(environment, tmp_path, [])
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
        process.wait(10)


async def create(settings: KafkaSettings, *lanes: Lane) -> None:
    hour_ms = 3_600_000
    names = [topic for lane in lanes for topic in (lane.topic, *lane.retry_topics, lane.dlq_topic)]
    await apply(settings, [TopicSpec(name, 1, hour_ms) for name in (*names, DELIVERY_EVENTS)], replication_factor=1)


async def publish(settings: KafkaSettings, *seeded: Seeded) -> None:
    records = []
    for each in seeded:
        value, headers = encode(each.hint)
        lane = DEFAULT_CHANNELS.spec(each.hint.channel).lane(each.hint.message_class)
        records.append(Record(lane.topic, b"user", value, headers))
    async with producing(settings) as producer:
        await producer.publish(records)


async def in_status(seeder: Seeder, seeded: Seeded, *statuses: str) -> None:
    async def holds() -> bool:
        return (await seeder.row(seeded.key))["status"] in statuses

    await until(holds, timeout_sec=90, what=f"status {statuses}")


async def reap(pool: Pool, settings: KafkaSettings) -> None:
    """What the relay does once the lease has run out, here at once: nobody waits half a minute in a test."""
    past = datetime.now(UTC) - timedelta(seconds=60)
    await pool.execute("UPDATE ulak.leases SET lease_until = $1", past)
    await pool.execute("UPDATE ulak.deliveries SET lease_until = $1 WHERE claim_id IS NOT NULL", past)
    reaper = Reaper(pool, DEFAULT_CHANNELS, grace_sec=0, service_version="0", clock=lambda: datetime.now(UTC))
    await reaper.round()
    rows = await pool.fetch("DELETE FROM ulak.outbox RETURNING topic, key, payload, headers")
    records = [
        Record(row["topic"], row["key"], row["payload"], [(k, v.encode()) for k, v in row["headers"].items()])
        for row in rows
    ]
    async with producing(settings) as producer:
        await producer.publish(records)


async def test_every_channel_end_to_end(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lanes = [DEFAULT_CHANNELS.lane(name) for name in ("otp-sms", "sms-tx", "email-tx", "push-tx")]
    await create(kafka_settings, *lanes)
    await workers.start(*(lane.name for lane in lanes))
    seeder = Seeder(pool, key_ring)
    seeded = [
        await seeder.delivery(
            "SMS", message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE, content={"text": "482913"}
        ),
        await seeder.delivery("SMS"),
        await seeder.delivery("EMAIL"),
        await seeder.delivery("PUSH", platform="IOS"),
        await seeder.delivery("PUSH", platform="ANDROID", address="android-token"),
        await seeder.delivery("PUSH", platform="WEBPUSH", address=simulator.subscription("browser-1")),
        await seeder.delivery("SMS", mode="test"),
    ]
    await publish(kafka_settings, *seeded)
    for each in seeded:
        await in_status(seeder, each, "SENT")
    counts = {name: len(await simulator.accepted(name)) for name in ("twilio", "smtp", "apns", "fcm", "webpush")}
    assert counts == {"twilio": 2, "smtp": 1, "apns": 1, "fcm": 1, "webpush": 1}


async def test_503_then_it_arrives_through_the_retry_tier(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("otp-sms")
    await create(kafka_settings, lane)
    await simulator.fault("twilio", times=1, status=503)
    await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS", message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE)
    await publish(kafka_settings, seeded)
    await in_status(seeder, seeded, "SENT")
    row = await seeder.row(seeded.key)
    assert row["attempt"] == 2
    assert await seeder.log(seeded.key) == [("attempt", "transient"), ("attempt", "accepted")]


@pytest.mark.parametrize(
    ("channel", "provider", "fault", "ends_as"),
    [
        pytest.param("EMAIL", "smtp", {"smtp": {"phase": "dataEnd"}}, DeliveryStatus.SENT, id="at-least-once"),
        pytest.param("SMS", "twilio", {}, DeliveryStatus.UNKNOWN, id="at-most-once"),
    ],
)
async def test_killed_while_sending(
    channel: str,
    provider: str,
    fault: dict[str, Any],
    ends_as: DeliveryStatus,
    workers: Workers,
    simulator: Simulator,
    pool: Pool,
    kafka_settings: KafkaSettings,
    key_ring: KeyRing,
) -> None:
    """The provider has the message, the worker is gone: sent again with the same reference, or never again."""
    lane = DEFAULT_CHANNELS.spec(channel).lane(MessageClass.TX)
    await create(kafka_settings, lane)
    await simulator.fault(provider, times=1, delayMs=60_000, **fault)
    first = await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery(channel)
    await publish(kafka_settings, seeded)

    async def with_the_provider() -> bool:
        return len(await simulator.messages(provider)) == 1

    await until(with_the_provider, what="the call at the provider")
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    assert (await seeder.row(seeded.key))["status"] == "SENDING"

    await workers.start(lane.name)  # it gets the same hint again, and must not send on it
    await reap(pool, kafka_settings)
    await in_status(seeder, seeded, ends_as)
    messages = await simulator.messages(provider)
    assert len(messages) == (2 if ends_as is DeliveryStatus.SENT else 1)
    assert {message["reference"] for message in messages} <= {seeded.key.reference, None}


async def test_killed_between_the_providers_word_and_the_record(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("sms-tx")
    await create(kafka_settings, lane)
    await simulator.fault("twilio", times=1, delayMs=500)
    first = await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS")
    await publish(kafka_settings, seeded)
    await in_status(seeder, seeded, "SENDING")
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
    await workers.start(lane.name)
    await reap(pool, kafka_settings)
    await in_status(seeder, seeded, "UNKNOWN")
    assert len(await simulator.accepted("twilio")) == 1


async def test_killed_between_poll_and_claim_is_redelivered_K1(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("sms-tx")
    await create(kafka_settings, lane)
    first = await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS")
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("LOCK TABLE ulak.suppressions IN ACCESS EXCLUSIVE MODE")
        await publish(kafka_settings, seeded)

        async def waits() -> bool:
            return bool(
                await pool.fetchval(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND query LIKE '%load_deliveries%'"
                )
            )

        await until(waits, what="the blocked load")
        first.send_signal(signal.SIGKILL)
        first.wait(10)
    await workers.start(lane.name)
    await in_status(seeder, seeded, "SENT")
    assert len(await simulator.accepted("twilio")) == 1


async def test_sigterm_while_sending_finishes_and_records_G1(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("sms-tx")
    await create(kafka_settings, lane)
    await simulator.fault("twilio", times=1, delayMs=1500)
    worker = await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS")
    await publish(kafka_settings, seeded)

    async def with_the_provider() -> bool:
        return len(await simulator.messages("twilio")) == 1

    await until(with_the_provider, what="the call at the provider")
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 30) == 0
    assert (await seeder.row(seeded.key))["status"] == "SENT"
    assert await seeder.leases() == 0


async def test_cancelled_in_a_retry_tier_is_never_sent(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("otp-sms")
    await create(kafka_settings, lane)
    await simulator.fault("twilio", times=1, status=503)
    await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS", message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE)
    await publish(kafka_settings, seeded)

    async def retried() -> bool:
        row = await seeder.row(seeded.key)
        return bool(row["status"] == "PENDING" and row["attempt"] == 1)

    await until(retried, timeout_sec=90)
    await pool.execute("UPDATE ulak.notifications SET state = 'CANCELLED', cancelled_at = now()")
    await in_status(seeder, seeded, "SKIPPED")
    assert (await seeder.row(seeded.key))["reason"] == "cancelled"
    assert len(await simulator.accepted("twilio")) == 0


async def test_poison_goes_to_the_dead_letters_K7(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("sms-tx")
    await create(kafka_settings, lane)
    await workers.start(lane.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS")
    async with producing(kafka_settings) as producer:
        await producer.publish([Record(lane.topic, b"user", b"not json")])
    await publish(kafka_settings, seeded)
    await in_status(seeder, seeded, "SENT")


def test_unknown_lane_is_refused_with_the_list() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services.workers", "--lane", "sms-txt"], cwd=_ROOT, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"otp-sms" in done.stderr
