"""What 202 promises when Kafka, the process or the connection goes away; and that the fast way is really taken."""

import asyncio
import random
import signal
from contextlib import suppress

import asyncpg
import confluent_kafka
import httpx
import orjson

from services.ingest.settings import IngestSettings
from shared.core.identifier import NOTIFICATION, parse_public_id
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.wire.topic import TopicSpec
from tests.integration.ingest.conftest import Ingest, add_key, order, otp, running, until
from tests.integration.ingest.process import process
from tests.integration.plain_http import plain_client

PATH = "/internal/v1/notifications"


async def test_kill_9_between_commit_and_publish_leaves_the_outbox_row(
    database: str, pool: asyncpg.Pool, key_ring: KeyRing, catalogue: None
) -> None:
    """Kafka is unreachable, so nothing is ever published: whatever was answered 202 is in the outbox after SIGKILL."""
    secret = await add_key(pool)
    headers = {"authorization": f"Bearer {secret}"}
    accepted: list[str] = []
    async with (
        process(database, key_ring, "127.0.0.1:1") as (child, url),
        plain_client(base_url=url, headers=headers, timeout=10) as client,
    ):

        async def keep_sending(worker: int) -> None:
            for number in range(1000):
                response = await client.post(PATH, json=order(eventId=f"e-{worker}-{number}"))
                assert response.status_code == 202
                accepted.append(response.json()["notificationId"])

        senders = [asyncio.create_task(keep_sending(worker)) for worker in range(8)]
        await until(lambda: len(accepted) > random.randint(50, 200))
        child.send_signal(signal.SIGKILL)
        for sender in senders:
            with suppress(httpx.TransportError):
                await sender
    ids = [parse_public_id(NOTIFICATION, identifier) for identifier in accepted]
    assert len(ids) > 50
    stored = await pool.fetchval(
        "SELECT count(*) FROM ulak.outbox o JOIN ulak.notifications n USING (id) "
        "JOIN ulak.notification_dedup d ON d.notification_id = n.id "
        "WHERE o.id = ANY($1) AND o.topic = 'notification-requests-tx'",
        ids,
    )
    assert stored == len(ids)
    orphans = await pool.fetchval(
        "SELECT count(*) FROM ulak.notifications n LEFT JOIN ulak.outbox o USING (id) WHERE o.id IS NULL"
    )
    assert orphans == 0


async def test_accepts_while_kafka_is_down(
    database: str, pool: asyncpg.Pool, key_ring: KeyRing, catalogue: None
) -> None:
    """Notifications and codes alike: 202, and the relay's row is there two seconds ahead."""
    secret = await add_key(pool)
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", delivery_timeout_ms=1000)
    async with (
        running(database, kafka, key_ring) as (url, _),
        plain_client(base_url=url, headers={"authorization": f"Bearer {secret}"}) as client,
    ):
        assert (await client.post(PATH, json=order())).status_code == 202
        assert (await client.post("/internal/v1/otp-messages", json=otp())).status_code == 202
        rows = await pool.fetch(
            "SELECT topic, extract(epoch FROM o.available_at - n.created_at) AS ahead "
            "FROM ulak.outbox o JOIN ulak.notifications n USING (id) ORDER BY topic"
        )
    assert [row["topic"] for row in rows] == ["notification-requests-tx", "otp-sms"]
    assert all(1.9 < row["ahead"] < 4 for row in rows)


async def test_publishes_at_once_and_removes_the_row(
    database: str, pool: asyncpg.Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, catalogue: None
) -> None:
    """With Kafka there: the hint is on its topic, keyed by the user, with the caller's trace; the outbox is empty."""
    topics = ("notification-requests-tx", "otp-sms")
    await apply(kafka_settings, [TopicSpec(name, 1, 3_600_000) for name in topics])
    secret = await add_key(pool)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"authorization": f"Bearer {secret}", "traceparent": trace}
    async with (
        running(database, kafka_settings, key_ring) as (url, _),
        plain_client(base_url=url, headers=headers) as client,
    ):
        identifier = (await client.post(PATH, json=order())).json()["notificationId"]
        assert (await client.post("/internal/v1/otp-messages", json=otp())).status_code == 202

        async def removed() -> bool:
            return not await pool.fetchval("SELECT count(*) FROM ulak.outbox")

        await until(removed)
    messages = await asyncio.to_thread(read_all, kafka_settings, topics, 2)
    request = next(message for message in messages if (message.topic() or "").endswith("tx"))
    value = request.value()
    assert value is not None
    assert orjson.loads(value) == {"v": 1, "notificationId": str(parse_public_id(NOTIFICATION, identifier))}
    user_id = await pool.fetchval("SELECT user_id FROM ulak.recipients")
    assert request.key() == str(user_id).encode()
    assert dict(request.headers() or []) == {
        "ulak-type": b"notification-request",
        "ulak-schema": b"1",
        "traceparent": trace.encode(),
    }


def read_all(settings: KafkaSettings, topics: tuple[str, ...], count: int) -> list[confluent_kafka.Message]:
    """The first `count` messages of the topics; fails after 20 seconds."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": settings.names.full("test"),
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([settings.names.full(topic) for topic in topics])
        found: list[confluent_kafka.Message] = []
        for _ in range(200):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message)
            if len(found) == count:
                return found
        raise AssertionError(f"{len(found)} of {count} messages arrived")
    finally:
        consumer.close()


async def test_one_row_the_database_refuses_does_not_fail_its_group(ingest: Ingest) -> None:
    """A constraint of the database's own (here one that an operator added) refuses one row: the others are accepted."""
    await ingest.pool.execute(
        "ALTER TABLE ulak.notification_dedup ADD CONSTRAINT no_poison CHECK (key <> 'e-13') NOT VALID"
    )
    answers = await asyncio.gather(*(ingest.accept(eventId=f"e-{n}") for n in range(40)))
    assert [n for n, answer in enumerate(answers) if answer.status_code != 202] == [13]
    assert (answers[13].status_code, answers[13].json()["code"]) == (422, "row_refused")
    batch = await ingest.post(f"{PATH}/batch", {"items": [order(eventId=f"e-{n}") for n in range(12, 15)]})
    assert [result["status"] for result in batch.json()["results"]] == [200, 422, 200]


async def test_a_missing_partition_is_said_and_nothing_is_half_stored(ingest: Ingest) -> None:
    names = await ingest.pool.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'ulak.notifications'::regclass"
    )
    for row in names:
        await ingest.pool.execute(f"ALTER TABLE ulak.notifications DETACH PARTITION {row['name']}")
    response = await ingest.accept()
    assert (response.status_code, response.json()["code"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "1"
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notification_dedup") == 0
    ready = await ingest.client.get(f"{ingest.health_url}/readyz")
    assert (ready.status_code, ready.json()["checks"]["partition"]) == (503, False)


async def test_connections_cut_by_the_server_cost_no_request(ingest: Ingest) -> None:
    """An administrator terminates the pool's backends: the group is tried once more on a fresh connection."""
    assert (await ingest.accept(eventId="before")).status_code == 202
    await ingest.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'ulak ingest' AND datname = current_database()"
    )
    answers = await asyncio.gather(*(ingest.accept(eventId=f"e-{n}") for n in range(20)))
    assert {answer.status_code for answer in answers} <= {202, 503}
    for number, answer in enumerate(answers):
        if answer.status_code == 503:
            assert (await ingest.accept(eventId=f"e-{number}")).status_code in {200, 202}
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 21


async def test_sigterm_finishes_what_was_taken_in_G2(
    database: str, pool: asyncpg.Pool, key_ring: KeyRing, catalogue: None, kafka_bootstrap: str
) -> None:
    """A request whose body is still on its way when SIGTERM comes is answered; then the process ends with 0."""
    secret = await add_key(pool)
    async with process(database, key_ring, kafka_bootstrap) as (child, url):
        body = orjson.dumps(order())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(
            f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        await writer.drain()
        # Sent when the service asks for the body: the request is in its hands.
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60) == b"HTTP/1.1 100 Continue\r\n\r\n"
        child.send_signal(signal.SIGTERM)
        await until(lambda: takes_no_more_connections(url))
        writer.write(body)
        await writer.drain()
        assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == b"202"
        writer.close()
        assert await asyncio.wait_for(child.wait(), 60) == 0
    assert await pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1


async def takes_no_more_connections(url: str) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_too_many_waiting_are_told_to_come_again(
    database: str, pool: asyncpg.Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, catalogue: None
) -> None:
    secret = await add_key(pool)
    small = IngestSettings(max_waiting=10)
    async with (
        running(database, kafka_settings, key_ring, ingest=small) as (url, _),
        plain_client(base_url=url, headers={"authorization": f"Bearer {secret}"}) as client,
    ):
        batch = {"items": [order(eventId=f"e-{n}") for n in range(11)]}
        results = (await client.post(f"{PATH}/batch", json=batch)).json()["results"]
        assert {result["status"] for result in results} == {503}
        assert (await client.post(PATH, json=order())).status_code == 202
