"""`replay` on a real database and broker: what goes again goes once, whoever asks, however often, whatever dies."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from shared.core.identifier import new_id
from shared.core.outcome import Transient
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing
from shared.delivery.poison import dead_letter_topics, index_poison
from shared.delivery.replay import preview, replay_batch
from shared.kafka.dead_letters import DeadLetter, DeadLetterWriter, sealing
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.retained import RetainedReader
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.audit_log import Actor
from shared.postgres.dead_letter import LetterFilter, Run, begin_run, load_run
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource, ring_json
from shared.wire.message import DeliveryHint, decode
from shared.wire.topic import DOMAIN_EVENTS, ROUTER_DLQ, declared_topics
from tests.integration.delivery.world import ADDRESS, CONTENT, Seeded, World, until

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

TOPIC = "email-tx-dlq"
ACTOR = Actor("operator ayse")


@dataclass
class Answer:
    code: int
    output: str
    errors: str

    @property
    def body(self) -> dict[str, Any]:
        assert self.code == 0, self.errors
        return dict(json.loads(self.output))


@dataclass
class Shell:
    """Types `replay ...` against the test's own database, topics and keys."""

    environment: Mapping[str, str]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from ops.cli.replay.main import run; run()", *arguments),
            env={**os.environ, **self.environment, "COLUMNS": "300"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def types(self, *arguments: str) -> Answer:
        process = await self.start(*arguments)
        output, errors = await process.communicate()
        assert process.returncode is not None
        return Answer(process.returncode, output.decode(), errors.decode())


@pytest.fixture
async def shell(database: str, kafka_settings: KafkaSettings, key_ring: KeyRing) -> Shell:
    needed = {*dead_letter_topics(), DOMAIN_EVENTS}
    await apply(kafka_settings, [spec for spec in declared_topics(max_partitions=1) if spec.name in needed])
    return Shell(
        {
            "ULAK_POSTGRES_DSN": database,
            "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
            "ULAK_KAFKA_TOPIC_PREFIX": kafka_settings.topic_prefix,
            "ULAK_KEY_RING": ring_json(key_ring).decode(),
        }
    )


@pytest.fixture
async def reader(kafka_settings: KafkaSettings) -> AsyncIterator[RetainedReader]:
    async with RetainedReader.open(kafka_settings) as opened:
        yield opened


async def exhausted(mail: World, **columns: Any) -> Seeded:
    """A delivery that has just failed for the last time."""
    seeded = await mail.seeder.delivery("EMAIL", columns={"attempt": mail.lane.max_attempts - 1})
    mail.sender.outcomes = [Transient("451", of_target=True)]  # no breaker minds it
    await mail.work(seeded)
    for name, value in columns.items():
        await mail.seeder.pool.execute(
            f"UPDATE ulak.deliveries SET {name} = $2 WHERE notification_id = $1", seeded.key.notification_id, value
        )
    return seeded


async def begun(pool: Pool, topic: str = TOPIC, **options: Any) -> Run:
    run = Run(new_id(), topic, LetterFilter(), options.get("provider"), 1e9, ACTOR.name, datetime.now(UTC))
    async with pool.acquire() as connection:
        await begin_run(connection, run)
    return run


async def to_its_end(
    pool: Pool, run: Run, reader: RetainedReader, ring: KeyRing, publisher: Any = None, limit: int = 50
) -> Mapping[str, int]:
    """What became of the letters, by its verdicts."""
    moved: Run | None = run
    async with pool.acquire() as connection:
        while moved is not None:
            moved = await replay_batch(
                connection,
                run,
                ACTOR,
                reader=reader,
                publisher=publisher or InMemoryProducer(),
                ring=ring,
                now=datetime.now(UTC),
                limit=limit,
            )
        ended = await load_run(connection, run.id)
    assert ended is not None
    assert ended.ended_at is not None
    return ended.counts


async def hints(pool: Pool) -> list[DeliveryHint]:
    """Those that wait for the relay."""
    rows = await pool.fetch("SELECT topic, payload FROM ulak.outbox ORDER BY id")
    return [decode(DeliveryHint, row["payload"]) for row in rows if row["topic"] == "email-tx"]


def key_of(hint: DeliveryHint) -> DeliveryKey:
    return DeliveryKey(hint.notification_id, hint.channel, hint.target_key)


async def states(pool: Pool) -> Counter[str]:
    return Counter(row[0] for row in await pool.fetch("SELECT state FROM ulak.dead_letters"))


# ------------------------------------------------------------ letters with a row


async def test_replayed_once_and_sent_once(mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing) -> None:
    seeded = await exhausted(mail)
    run = await begun(pool)
    assert await to_its_end(pool, run, reader, key_ring) == {"replayed": 1}
    assert await to_its_end(pool, await begun(pool), reader, key_ring) == {}
    (hint,) = await hints(pool)
    assert (key_of(hint), hint.attempt) == (seeded.key, 0)
    letter = await pool.fetchrow("SELECT state, run_id, ended_by FROM ulak.dead_letters")
    assert letter is not None
    assert tuple(letter) == ("replayed", run.id, ACTOR.name)

    mail.sender.sent.clear()
    await mail.work(Seeded(seeded.key, hint), Seeded(seeded.key, hint))
    assert len(mail.sender.sent) == 1
    assert (await mail.seeder.row(seeded.key))["status"] == "SENT"
    assert ("operator", "requeue") in await mail.seeder.log(seeded.key)
    assert await to_its_end(pool, await begun(pool), reader, key_ring) == {}


async def test_what_fails_again_is_open_again_and_not_this_run_s_business(
    mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing
) -> None:
    seeded = await exhausted(mail)
    run = await begun(pool)
    async with pool.acquire() as connection:
        await replay_batch(
            connection, run, ACTOR, reader=reader, publisher=InMemoryProducer(), ring=key_ring, now=datetime.now(UTC)
        )
    last = mail.lane.max_attempts - 1
    await pool.execute("UPDATE ulak.deliveries SET attempt = $1", last)
    (hint,) = await hints(pool)
    mail.sender.outcomes = [Transient("451")]
    await mail.work(Seeded(seeded.key, replace(hint, attempt=last)))
    assert await states(pool) == {"open": 1}
    assert await to_its_end(pool, run, reader, key_ring) == {"replayed": 1}
    assert await to_its_end(pool, await begun(pool), reader, key_ring) == {"replayed": 1}


@pytest.mark.parametrize(
    ("columns", "verdict", "state"),
    [
        pytest.param({"status": "SENT", "reason": None}, "sent", "refused", id="sent"),
        pytest.param({"status": "DELIVERED", "reason": None}, "sent", "refused", id="delivered"),
        pytest.param({"cancel_requested": True}, "cancelled", "refused", id="cancelled"),
        pytest.param({"status": "PENDING", "reason": None}, "under_way", "refused", id="under-way"),
        pytest.param({"reason": "permanent"}, "permanent", "open", id="a-person-must-look"),
    ],
)
async def test_refused(
    mail: World,
    pool: Pool,
    reader: RetainedReader,
    key_ring: KeyRing,
    columns: dict[str, Any],
    verdict: str,
    state: str,
) -> None:
    await exhausted(mail, **columns)
    before = await pool.fetchrow("SELECT status, reason, attempt FROM ulak.deliveries")
    assert await to_its_end(pool, await begun(pool), reader, key_ring) == {verdict: 1}
    assert await pool.fetchrow("SELECT status, reason, attempt FROM ulak.deliveries") == before
    assert (await hints(pool), await states(pool)) == ([], {state: 1})


async def test_expired_is_skipped_and_told(mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing) -> None:
    seeded = await exhausted(mail, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert await to_its_end(pool, await begun(pool), reader, key_ring) == {"expired": 1}
    row = await mail.seeder.row(seeded.key)
    assert (row["status"], row["reason"]) == ("SKIPPED", "expired")
    (event,) = await pool.fetch("SELECT payload FROM ulak.outbox WHERE topic = 'delivery-events'")
    assert orjson.loads(event["payload"])["data"]["reason"] == "expired"
    assert await states(pool) == {"refused": 1}


async def test_suppressed_is_never_sent(mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing) -> None:
    seeded = await exhausted(mail)
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, scope, reason, source) "
        "VALUES ('EMAIL', $1, 'ALL', $2, $2)",
        seeded.key.target_key,
        "bounce",
    )
    assert await to_its_end(pool, await begun(pool), reader, key_ring) == {"suppressed": 1}
    assert await hints(pool) == []


async def test_two_operators_at_once_double_nothing(
    mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing
) -> None:
    for _ in range(120):
        await exhausted(mail)
    runs = [await begun(pool), await begun(pool)]
    counts = await asyncio.gather(*(to_its_end(pool, run, reader, key_ring, limit=7) for run in runs))
    assert sum(each["replayed"] for each in counts if each) == 120
    keys = [key_of(hint) for hint in await hints(pool)]
    assert len(keys) == len(set(keys)) == 120


async def test_a_row_that_somebody_else_is_at_is_left_to_them(
    mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing
) -> None:
    await exhausted(mail)
    async with pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM ulak.deliveries FOR UPDATE")
        assert await to_its_end(pool, await begun(pool), reader, key_ring) == {"under_way": 1}
    assert await states(pool) == {"open": 1}


async def test_through_another_provider(mail: World, pool: Pool, reader: RetainedReader, key_ring: KeyRing) -> None:
    seeded = await exhausted(mail)
    await to_its_end(pool, await begun(pool, provider="ses"), reader, key_ring)
    assert (await mail.seeder.row(seeded.key))["chosen_provider"] == "ses"
    assert str(await pool.fetchval("SELECT detail FROM ulak.delivery_log WHERE kind = 'operator'")).endswith(
        ", operator ayse, through ses alone"
    )


async def test_a_look_changes_nothing(mail: World, pool: Pool, reader: RetainedReader) -> None:
    await exhausted(mail)
    await exhausted(mail, cancel_requested=True)
    moved = Run(new_id(), TOPIC, LetterFilter(), None, 1, "x", datetime.now(UTC))
    async with pool.acquire() as connection:
        moved, found = await preview(connection, moved, reader=reader, now=datetime.now(UTC))
    assert (moved.counts, len(found)) == ({"replayed": 1, "cancelled": 1}, 2)
    assert (await states(pool), await hints(pool)) == ({"open": 2}, [])


# ------------------------------------------------------------ letters that lie in Kafka alone


@dataclass
class Forgetful:
    """A process that dies between the broker's word and its own commit."""

    published: list[Record] = field(default_factory=list)
    dies: bool = True

    async def publish(self, records: Sequence[Record]) -> None:
        self.published += records
        if self.dies:
            raise PublishError([(0, "killed")])


async def bury(
    settings: KafkaSettings, ring: KeyRing, *values: bytes, headers: Sequence[tuple[str, bytes | None]] = ()
) -> None:
    """Write dead letters of events, as the router does."""
    async with Producer.open(settings, name="test") as producer:
        writer = DeadLetterWriter(
            producer, dlq_topic=ROUTER_DLQ, service_version="1", seal=sealing(ROUTER_DLQ, FixedRingSource(ring))
        )
        await writer.write(
            [
                DeadLetter(DOMAIN_EVENTS, 0, n, b"order-1", value, headers, "no_mapping", "maps to nothing", 1, _now())
                for n, value in enumerate(values)
            ]
        )


async def test_an_event_that_maps_to_something_by_now_goes_back_as_it_was(
    shell: Shell, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, reader: RetainedReader
) -> None:
    await bury(kafka_settings, key_ring, b'{"id":"1"}', b'{"id":"2"}')
    listed = (await shell.types("list", ROUTER_DLQ, "--json")).body["letters"]
    assert [(each["kind"], each["errorClass"]) for each in listed] == [("poison", "no_mapping")] * 2
    first = await shell.types("run", ROUTER_DLQ, "--yes", "--json")
    assert first.body["counts"] == {"replayed": 2}
    assert (await shell.types("run", ROUTER_DLQ, "--yes", "--json")).body["counts"] == {}
    (span,) = (await reader.spans(DOMAIN_EVENTS)).values()
    back = [message async for page in reader.read(DOMAIN_EVENTS, 0, span) for message in page]
    assert [(each.key, each.value) for each in back] == [(b"order-1", b'{"id":"1"}'), (b"order-1", b'{"id":"2"}')]
    assert {each.headers["ulak-dlq-attempts"] for each in back} == {b"1"}


async def test_died_between_kafka_and_the_table_goes_back_again(
    shell: Shell, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, reader: RetainedReader
) -> None:
    await bury(kafka_settings, key_ring, b'{"id":"1"}')
    async with pool.acquire() as connection:
        assert await index_poison(connection, reader, ROUTER_DLQ, _now()) == 1
        assert await index_poison(connection, reader, ROUTER_DLQ, _now()) == 0
    run, publisher = await begun(pool, ROUTER_DLQ), Forgetful()
    with pytest.raises(PublishError):
        await to_its_end(pool, run, reader, key_ring, publisher)
    assert await states(pool) == {"open": 1}
    publisher.dies = False
    assert await to_its_end(pool, run, reader, key_ring, publisher) == {"replayed": 1}
    first, second = publisher.published
    assert first == second, "whoever reads both knows them by their id"


async def test_kafka_keeps_it_no_longer(shell: Shell, pool: Pool, key_ring: KeyRing, reader: RetainedReader) -> None:
    await pool.execute(
        "INSERT INTO ulak.dead_letters (topic, fingerprint, error_class, first_seen, last_seen, origin_topic, "
        "dlq_partition, dlq_offset) VALUES ($1, 'f', 'x', now(), now(), $2, 0, 99)",
        ROUTER_DLQ,
        DOMAIN_EVENTS,
    )
    assert await to_its_end(pool, await begun(pool, ROUTER_DLQ), reader, key_ring) == {"gone": 1}
    assert await states(pool) == {"refused": 1}


# ------------------------------------------------------------ the command


async def test_killed_in_the_middle_and_resumed(shell: Shell, mail: World, pool: Pool) -> None:
    for _ in range(60):
        await exhausted(mail)
    process = await shell.start("run", TOPIC, "--yes", "--rate", "20")

    async def some_went() -> bool:
        return len(await hints(pool)) >= 10

    await until(some_went, what="the first letters")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    ((run_id, ended_at),) = await pool.fetch("SELECT id, ended_at FROM ulak.replay_runs")
    assert ended_at is None
    (listed,) = (await shell.types("runs", "--json")).body["runs"]
    resumed = await shell.types("run", "--resume", listed["runId"], "--json")
    assert resumed.body["counts"] == {"replayed": 60}
    keys = [key_of(hint) for hint in await hints(pool)]
    assert len(keys) == len(set(keys)) == 60
    again = await shell.types("run", "--resume", listed["runId"])
    assert (again.code, "has ended" in again.errors) == (1, True)
    assert isinstance(run_id, UUID)


async def test_looked_at_run_closed_and_purged(shell: Shell, mail: World, pool: Pool) -> None:
    for _ in range(3):
        await exhausted(mail)
    told = [(await shell.types("list")).output]
    (summary,) = (await shell.types("list", "--json")).body["topics"]
    assert (summary["topic"], summary["exhausted"], summary["poison"]) == (TOPIC, 3, 0)
    first, second, _ = (await shell.types("list", TOPIC, "--json")).body["letters"]
    told.append((await shell.types("show", first["id"])).output)
    assert "on the way again" in told[-1]
    dry = await shell.types("run", TOPIC, "--type", "ORDER_SHIPPED", "--json")
    assert (dry.body["dryRun"], dry.body["counts"]) == (True, {"replayed": 3})
    assert (await shell.types("run", TOPIC, "--type", "OTHER", "--json")).body["counts"] == {}
    assert (await shell.types("close", first["id"], second["id"], "--note", "told by phone", "--json")).code == 0
    assert (await shell.types("close", first["id"], "--note", "again")).code == 1
    assert (await shell.types("purge", TOPIC, "--note", "a test", "--json")).body["letters"] == 1
    assert (await shell.types("purge", TOPIC, "--note", "a test", "--yes", "--json")).body["purged"] == 1
    told.append((await shell.types("list", TOPIC, "--state", "any")).output)
    assert await states(pool) == {"closed": 2, "purged": 1}
    actions = await pool.fetch("SELECT action FROM ulak.audit_log ORDER BY id")
    assert [row["action"] for row in actions] == ["closed", "closed", "purged"]
    for text in told:
        assert ADDRESS["EMAIL"] not in text
        assert CONTENT["EMAIL"]["subject"] not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run",), "say which topic"),
        (("run", "email-dlq"), "email-tx-dlq"),
        (("run", "outbox"), "ulak outbox requeue"),
        (("run", TOPIC, "--via", "twilio"), "smtp"),
        (("run", "--resume", "rpl_1"), "rpl_"),
        (("show", "zz"), "replay list"),
        (("show", "abcdef"), "there is no letter"),
        (("close", "abcdef", "--note", "  "), "--note"),
    ],
)
async def test_what_cannot_be_done_is_said(shell: Shell, arguments: tuple[str, ...], says: str) -> None:
    answer = await shell.types(*arguments)
    assert answer.code == 1
    assert says in answer.errors


def _now() -> datetime:
    return datetime.now(UTC)
