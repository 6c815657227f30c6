"""One batch of a replay: letters taken, judged by how their deliveries stand now, sent on their way again or refused.

All of a batch is one transaction: letters, rows, hints (in the outbox) and the run's counts move together, so a replay
that dies has done whole batches, and one that is resumed goes on behind them. Only what lies in Kafka alone is written
to Kafka before that commit: a crash in between sends it back a second time, and whoever reads it knows it by its id.
Who is at a letter or a delivery at that moment, another operator or a worker, keeps it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from shared.core.identifier import REPLAY, public_id
from shared.core.reference import DeliveryKey
from shared.core.replay import STAYS_OPEN, WORDS, Verdict, verdict
from shared.core.sealing import KeyRing
from shared.delivery.failed import Failed, load_failed, lock_deliveries
from shared.delivery.poison import poison_of, sent_back
from shared.delivery.requeue import requeue
from shared.kafka.record import Publisher, Record
from shared.kafka.retained import RetainedReader
from shared.postgres.audit_log import Actor, record
from shared.postgres.dead_letter import (
    REFUSED,
    REPLAYED,
    Ending,
    Letter,
    Run,
    begin_run,
    end_letters,
    end_run,
    letters,
    lock_run,
    save_run,
)
from shared.postgres.pool import Connection

AUDIT_KIND: Final = "replay"
BATCH: Final = 500
_DETAIL_CHARS: Final = 256


async def start(connection: Connection, actor: Actor, run: Run) -> None:
    """Write a run down before it does anything; in the caller's transaction."""
    await begin_run(connection, run)
    told = {"topic": run.topic, "filters": run.wanted.body(), "provider": run.provider}
    await record(connection, actor, "started", AUDIT_KIND, public_id(REPLAY, run.id), told)


async def replay_batch(
    connection: Connection,
    run: Run,
    actor: Actor,
    *,
    reader: RetainedReader,
    publisher: Publisher,
    ring: KeyRing,
    now: datetime,
    limit: int = BATCH,
) -> Run | None:
    """Deal with the run's next letters, in a transaction of its own. None: there are no more, and the run has ended.

    PublishError, ReadError, UnknownKeyError: nothing of the batch is written, and it may be tried again.
    """
    async with connection.transaction():
        current = await lock_run(connection, run)
        if current is None:
            return None
        found = await letters(
            connection,
            run.topic,
            run.wanted,
            after=current.after,
            limit=limit,
            seen_until=run.started_at,
            lock=True,
        )
        if not found:
            await end_run(connection, run, now)
            await record(connection, actor, "ended", AUDIT_KIND, public_id(REPLAY, run.id), dict(current.counts))
            return None
        locked = await lock_deliveries(connection, [letter.key for letter in found if letter.key is not None])
        rows = await load_failed(connection, [letter.key for letter in found if letter.key is not None])
        judged = judge(found, rows, now)
        for letter in found:  # whose row somebody else is at
            if letter.key in rows and letter.key not in locked:
                judged[letter.fingerprint] = Verdict.UNDER_WAY
        poison, records = await _poison(reader, run.topic, found, ring)
        judged |= poison
        await _requeue(connection, run, found, judged, rows, now)
        await publisher.publish(records)
        ended = [letter for letter in found if letter.key not in rows or letter.key in locked]
        await end_letters(connection, _endings(ended, judged), by=actor.name, run_id=run.id, requeued=True)
        counts = Counter(current.counts) + Counter(str(each) for each in judged.values())
        moved = replace(current, counts=dict(counts), after=found[-1].position)
        await save_run(connection, moved)
    return moved


async def preview(
    connection: Connection,
    run: Run,
    *,
    reader: RetainedReader,
    now: datetime,
    limit: int = BATCH,
) -> tuple[Run, Sequence[tuple[Letter, Verdict]]]:
    """What `replay_batch` would do with the next letters, without doing it; none when there are no more."""
    found = await letters(connection, run.topic, run.wanted, after=run.after, limit=limit, seen_until=run.started_at)
    if not found:
        return run, ()
    rows = await load_failed(connection, [letter.key for letter in found if letter.key is not None])
    judged = judge(found, rows, now)
    alone = [letter for letter in found if letter.origin_topic is not None]
    if alone:
        spans = await reader.spans(run.topic)
        for letter in alone:
            number, offset = letter.at
            kept = number in spans and offset in spans[number]
            judged[letter.fingerprint] = Verdict.REPLAYED if kept else Verdict.GONE
    counts = Counter(run.counts) + Counter(str(each) for each in judged.values())
    moved = replace(run, counts=dict(counts), after=found[-1].position)
    return moved, [(letter, judged[letter.fingerprint]) for letter in found]


def judge(found: Sequence[Letter], rows: Mapping[DeliveryKey, Failed], now: datetime) -> dict[bytes, Verdict]:
    """By fingerprint, of those that do not lie in Kafka alone. Pure."""
    judged: dict[bytes, Verdict] = {}
    for letter in found:
        if letter.origin_topic is not None:
            continue
        if letter.key is None:
            judged[letter.fingerprint] = Verdict.DECIDED
            continue
        row = rows.get(letter.key)
        judged[letter.fingerprint] = verdict(None if row is None else row.standing, now)
    return judged


async def _poison(
    reader: RetainedReader, topic: str, found: Sequence[Letter], ring: KeyRing
) -> tuple[dict[bytes, Verdict], list[Record]]:
    alone = [letter for letter in found if letter.origin_topic is not None]
    messages = await poison_of(reader, topic, alone)
    judged: dict[bytes, Verdict] = {}
    records: list[Record] = []
    for letter in alone:
        back = sent_back(letter, messages.get(letter.at), ring)
        if isinstance(back, Record):
            records.append(back)
        judged[letter.fingerprint] = Verdict.REPLAYED if isinstance(back, Record) else back
    return judged, records


async def _requeue(
    connection: Connection,
    run: Run,
    found: Sequence[Letter],
    judged: Mapping[bytes, Verdict],
    rows: Mapping[DeliveryKey, Failed],
    now: datetime,
) -> None:
    going: dict[Verdict, dict[DeliveryKey, Failed]] = {Verdict.REPLAYED: {}, Verdict.EXPIRED: {}}
    for letter in found:
        said = judged[letter.fingerprint]
        if letter.key is not None and said in going:  # of two letters of one delivery the row is one
            going[said][letter.key] = rows[letter.key]
    await requeue(
        connection,
        list(going[Verdict.REPLAYED].values()),
        list(going[Verdict.EXPIRED].values()),
        now=now,
        provider=run.provider,
        note=_note(run),
    )


def _note(run: Run) -> str:
    """What `ulak why` tells of it."""
    through = "" if run.provider is None else f", through {run.provider} alone"
    return f"replay {public_id(REPLAY, run.id)}, {run.started_by}{through}"[:_DETAIL_CHARS]


def _endings(found: Sequence[Letter], judged: Mapping[bytes, Verdict]) -> list[Ending]:
    """Of all but those that a person has to look at."""
    verdicts = ((letter, judged[letter.fingerprint]) for letter in found)
    return [
        Ending(letter, REPLAYED, None) if said is Verdict.REPLAYED else Ending(letter, REFUSED, WORDS[said])
        for letter, said in verdicts
        if said not in STAYS_OPEN
    ]
