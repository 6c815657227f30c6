"""Dead letters replayed a second: 100,000 exhausted e-mails judged, set PENDING again, their hints in the outbox.

At no pace but its own; `replay run` keeps to its `--rate`. There is nothing to compare it with.
"""

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.scratch import RING, scratch_database
from shared.core.identifier import new_id
from shared.delivery.replay import replay_batch, start
from shared.kafka.memory import InMemoryProducer
from shared.kafka.retained import RetainedReader
from shared.kafka.settings import KafkaSettings
from shared.postgres.audit_log import Actor
from shared.postgres.dead_letter import LetterFilter, Run
from shared.postgres.pool import Connection, connect
from shared.postgres.settings import PostgresSettings

LETTERS: Final = 100_000
_TOPIC: Final = "email-tx-dlq"
_ACTOR: Final = Actor("operator bench")
_SEED: Final = (
    """
    INSERT INTO ulak.notifications
           (id, application_id, event_id, type, message_class, mode, state, expires_at, created_at)
    SELECT ulak.uuidv7(), 1, n::text, 'ORDER_SHIPPED', 1, 'live', 'DECIDED', now() + interval '1 day', now()
      FROM generate_series(1, $1::int) AS n
    """,
    """
    INSERT INTO ulak.deliveries
           (notification_id, channel, target_key, status, reason, message_class, promise, mode, attempt,
            next_attempt_at, expires_at, created_at, updated_at)
    SELECT id, 'EMAIL', sha256(id::text::bytea), 'FAILED', 'exhausted', 1, 'AT_LEAST_ONCE', 'live', 8, now(),
           expires_at, created_at, created_at
      FROM ulak.notifications
    """,
    """
    INSERT INTO ulak.contents (notification_id, channel, sealed, purpose, locale, template_version)
    SELECT id, 'EMAIL', sha256(event_id::bytea), 'content-v1', 'tr', 1 FROM ulak.notifications
    """,
    """
    INSERT INTO ulak.dead_letters
           (topic, fingerprint, notification_id, channel, target_key, error_class, first_seen, last_seen)
    SELECT 'email-tx-dlq', sha256(target_key), notification_id, channel, target_key, 'exhausted', now(), now()
      FROM ulak.deliveries
    """,
    "ANALYZE ulak.notifications, ulak.deliveries, ulak.contents, ulak.dead_letters",
)
_EMPTY: Final = (
    "TRUNCATE ulak.notifications, ulak.deliveries, ulak.contents, ulak.delivery_log, ulak.dead_letters, ulak.outbox"
)


async def _replayed(connection: Connection, reader: RetainedReader) -> Sample:
    for statement in _SEED:
        await connection.execute(statement, *([LETTERS] if "$1" in statement else []))
    run: Run | None = Run(new_id(), _TOPIC, LetterFilter(), None, 1e9, _ACTOR.name, datetime.now(UTC))
    assert run is not None
    await start(connection, _ACTOR, run)
    began, counts = time.perf_counter(), run.counts
    while run is not None:
        counts = run.counts
        run = await replay_batch(
            connection,
            run,
            _ACTOR,
            reader=reader,
            publisher=InMemoryProducer(),
            ring=RING,
            now=datetime.now(UTC),
        )
    seconds = time.perf_counter() - began
    hints = await connection.fetchval("SELECT count(DISTINCT payload) FROM ulak.outbox WHERE topic = 'email-tx'")
    rows = await connection.fetchval("SELECT count(*) FROM ulak.outbox")
    pending = await connection.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status = 'PENDING' AND attempt = 0")
    await connection.execute(_EMPTY)
    if (counts, hints, rows, pending) != ({"replayed": LETTERS}, LETTERS, LETTERS, LETTERS):
        raise WrongResultError(f"{counts}, {hints} different hints of {rows}, {pending} PENDING of {LETTERS}")
    return Sample(LETTERS, seconds)


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    kafka = KafkaSettings(bootstrap_servers=servers.kafka_bootstrap, topic_prefix=f"bench{secrets.token_hex(4)}-")
    with scratch_database(servers.postgres_dsn) as dsn:
        async with (
            connect(PostgresSettings(dsn=dsn), name="bench") as connection,
            RetainedReader.open(kafka) as reader,
        ):
            yield Pair(lambda: _replayed(connection, reader), None)


BENCH: Final = Bench(name="replay", unit="letters/s", first=None, goal=None, open=open_bench, pairs=2)
