"""A campaign that queues in every step which a login code shares with it: import, relay, router, database, workers.

Rows and messages are as ingest and the router leave them. Nothing waits for the campaign's own end.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import httpx
import orjson

from bench.harness import WrongResultError
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, keyed_hash, seal
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.message import DeliveryHint, RequestHint, encode
from shared.wire.topic import notification_requests

MESSAGES: Final = 100_000
_SMS: Final = 20_000
"""On the provider account that the codes use: more than its quota lets through meanwhile."""
_TOP_UP: Final = 20_000
_PIECE: Final = 500
_BULK: Final = MessageClass.BULK
_REQUESTS: Final = notification_requests(_BULK)
_TYPE: Final = "ORDER_DELIVERED"
_USER: Final = "7"  # of ops/demo/sample: two devices
_CONTENT: Final = {"PUSH": {"title": "Kampanya", "body": "Hafta sonuna kadar"}, "SMS": {"text": "Hafta sonuna kadar"}}
_PARAMS: Final = orjson.dumps({"orderNo": "98213"})

_NOTIFICATION: Final = (
    "id application_id event_id user_id type message_class mode state params_sealed expires_at created_at"
)
_DELIVERY: Final = (
    "notification_id channel target_key address_sealed platform status message_class promise mode attempt "
    "next_attempt_at expires_at created_at updated_at"
)
_CONTENTS: Final = "notification_id channel sealed purpose locale template_version"
_OUTBOX: Final = "id message_class topic key payload headers"
_LEVELS: Final = """
WITH pending AS (
    SELECT channel, count(*) AS waiting FROM ulak.deliveries
     WHERE message_class = 2 AND status = 'PENDING' GROUP BY channel
)
SELECT (SELECT count(*) FROM ulak.outbox WHERE message_class = 2) AS relay,
       (SELECT count(*) FROM ulak.notifications WHERE message_class = 2 AND state = 'ACCEPTED') AS undecided,
       coalesce((SELECT waiting FROM pending WHERE channel = 'PUSH'), 0) AS push,
       coalesce((SELECT waiting FROM pending WHERE channel = 'SMS'), 0) AS sms
"""


@dataclass(frozen=True, slots=True)
class Levels:
    """How much waits in each step."""

    relay: int
    router: int
    push: int
    sms: int
    importing: bool

    def require(self) -> None:
        """WrongResultError where a step has run dry, so that what was measured was not behind a backlog."""
        if not (min(self.relay, self.router, self.push, self.sms) > 0 and self.importing):
            raise WrongResultError(f"a step has run dry: {self}")

    def __str__(self) -> str:
        return f"relay {self.relay:,}, router {self.router:,}, push-bulk {self.push:,}, sms-bulk {self.sms:,}"


@dataclass(frozen=True, slots=True)
class Backlog:
    """One stack's campaign. importing: whether an import is being taken in right now."""

    pool: Pool
    producer: Producer
    ring: KeyRing
    importing: Callable[[], bool]

    async def levels(self) -> Levels:
        row = await self.pool.fetchrow(_LEVELS, timeout=60)
        if row is None:
            raise WrongResultError("the database counts nothing")
        router = row["undecided"] - row["relay"]
        return Levels(row["relay"], router, row["push"], row["sms"], self.importing())

    async def fill(self) -> None:
        """Rows first, so that every step gets its whole backlog at once."""
        requests = await self._accepted(MESSAGES)
        hints = [*await self._decided("PUSH", MESSAGES), *await self._decided("SMS", _SMS)]
        await self.pool.execute("ANALYZE ulak.notifications, ulak.deliveries, ulak.contents", timeout=60)
        records = [_request(id_) for id_ in requests]
        for hint in hints:
            value, headers = encode(hint)
            lane = DEFAULT_CHANNELS.spec(hint.channel).lane(_BULK)
            records.append(Record(lane.topic, hint.notification_id.bytes, value, headers))
        await self.add_outbox(MESSAGES)
        await self.producer.publish(records)

    async def kept(self) -> None:
        """Keep the quick steps full until cancelled: the relay's outbox, and the router's topic."""
        while True:
            waiting = await self.levels()
            if waiting.relay < MESSAGES:
                await self.add_outbox(_TOP_UP)
            if waiting.router < MESSAGES:
                await self.producer.publish([_request(id_) for id_ in await self._accepted(_TOP_UP)])
            await asyncio.sleep(0.5)

    async def add_outbox(self, count: int) -> None:
        """Accepted, and published by nobody."""
        rows = []
        for id_ in await self._accepted(count):
            record = _request(id_)
            headers = orjson.dumps({name: (value or b"").decode() for name, value in record.headers}).decode()
            rows.append((new_id(), int(_BULK), record.topic, record.key, record.value, headers))
        await self._copy("outbox", _OUTBOX, rows)

    async def _accepted(self, count: int) -> list[UUID]:
        """For the router to decide."""
        user = await self.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = $1", _USER)
        now, ids = datetime.now(UTC), [new_id() for _ in range(count)]
        rows = [
            (
                *(id_, 1, str(id_), user, _TYPE, int(_BULK), "live", "ACCEPTED"),
                *(seal(self.ring, Purpose.PARAMS, id_.bytes, _PARAMS), now + timedelta(hours=6), now),
            )
            for id_ in ids
        ]
        await self._copy("notifications", _NOTIFICATION, rows)
        return ids

    async def _decided(self, channel: str, count: int) -> list[DeliveryHint]:
        """For the workers to send."""
        now, content = datetime.now(UTC), orjson.dumps(_CONTENT[channel])
        expires_at, promise = now + timedelta(hours=6), DEFAULT_CHANNELS.spec(channel).default_promise
        notifications, deliveries, contents, hints = [], [], [], []
        for number in range(count):
            id_, address = new_id(), f"{number:064x}" if channel == "PUSH" else f"+90533{number:07}"
            target = keyed_hash(self.ring, f"target:{channel}", address)
            notifications.append((id_, 1, str(id_), None, _TYPE, int(_BULK), "live", "DECIDED", None, expires_at, now))
            deliveries.append(
                (
                    *(id_, channel, target, seal(self.ring, Purpose.ADDRESS, target, address.encode())),
                    *("IOS" if channel == "PUSH" else None, "PENDING", int(_BULK), promise, "live", 0),
                    *(now, expires_at, now, now),
                )
            )
            sealed = seal(self.ring, Purpose.CONTENT, id_.bytes + channel.encode(), content)
            contents.append((id_, channel, sealed, Purpose.CONTENT, "tr", 1))
            hints.append(DeliveryHint(id_, channel, target, 0, _BULK))
        await self._copy("notifications", _NOTIFICATION, notifications)
        await self._copy("deliveries", _DELIVERY, deliveries)
        await self._copy("contents", _CONTENTS, contents)
        return hints

    async def _copy(self, table: str, columns: str, records: Sequence[tuple[Any, ...]]) -> None:
        await self.pool.copy_records_to_table(
            table, schema_name="ulak", columns=columns.split(), records=records, timeout=120
        )


@asynccontextmanager
async def backlog(pool: Pool, producer: Producer, ring: KeyRing, ingest: httpx.AsyncClient) -> AsyncIterator[Backlog]:
    """The campaign, filled, kept and imported for until the block ends; what waits of it then is left where it is."""
    importing = asyncio.create_task(_import(ingest))
    made = Backlog(pool, producer, ring, lambda: not importing.done())
    await made.fill()
    keeping = asyncio.create_task(made.kept())
    try:
        yield made
        if keeping.done():
            keeping.result()
    finally:
        for task in (keeping, importing):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _import(ingest: httpx.AsyncClient) -> None:
    """100,000 recipients with a phone each, as quickly as they are taken, over and over."""
    while True:
        run = secrets.token_hex(4)

        async def lines(run: str = run) -> AsyncIterator[bytes]:
            for start in range(0, MESSAGES, _PIECE):
                yield b"".join(
                    orjson.dumps(
                        {"userId": f"{run}-{number}", "phone": f"+90534{number:07}", "locale": "tr-TR"},
                        option=orjson.OPT_APPEND_NEWLINE,
                    )
                    for number in range(start, start + _PIECE)
                )

        answer = await ingest.post(
            "/internal/v1/imports/recipients",
            content=lines(),
            headers={"content-type": "application/x-ndjson"},
            timeout=300,
        )
        if answer.status_code != 200 or answer.json()["accepted"] != MESSAGES:
            raise WrongResultError(f"the import was answered with {answer.status_code}: {answer.text[:200]}")


def _request(id_: UUID) -> Record:
    value, headers = encode(RequestHint(id_))
    return Record(_REQUESTS, id_.bytes, value, headers)
