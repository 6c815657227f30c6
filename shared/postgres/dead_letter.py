"""The table of dead letters, the runs of their replay, and how far their topics have been read into it.

All functions are parts of the caller's transaction and raise what asyncpg raises.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from shared.core.reference import DeliveryKey
from shared.core.replay import Kind, kind_of
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

OPEN: Final = "open"
REPLAYED: Final = "replayed"
REFUSED: Final = "refused"
CLOSED: Final = "closed"
PURGED: Final = "purged"
STATES: Final = (OPEN, REPLAYED, REFUSED, CLOSED, PURGED)
"""REFUSED: a replay found that it must not go any more. CLOSED, PURGED: an operator has ended it, one or many."""

_SQL: Final = load_queries("dead_letter")
_ID_DIGITS: Final = 16
_COUNTED_AT_MOST: Final = 1_000_000
_FINGERPRINT_DIGITS: Final = 64


class Position(NamedTuple):
    """A letter's place in the order in which they are dealt with."""

    first_seen: datetime
    fingerprint: bytes


BEGINNING: Final = Position(datetime(1970, 1, 1, tzinfo=UTC), b"")


@dataclass(frozen=True, slots=True)
class Letter:
    """One entry. topic: of dead letters, bare. type_name, provider, attempt: of its delivery, where it has one.

    origin_topic: it lies in Kafka alone, at (partition, offset) of its topic, and was meant for this one.
    """

    topic: str
    fingerprint: bytes
    notification_id: UUID | None
    channel: str
    target_key: bytes
    error_class: str
    detail: str | None
    state: str
    note: str | None
    first_seen: datetime
    last_seen: datetime
    origin_topic: str | None
    at: tuple[int, int]
    run_id: UUID | None
    ended_by: str | None
    type_name: str | None
    provider: str | None
    attempt: int | None

    @property
    def id(self) -> str:
        """As commands print and take it: the beginning of its fingerprint."""
        return self.fingerprint.hex()[:_ID_DIGITS]

    @property
    def kind(self) -> Kind:
        return kind_of(self.error_class, in_kafka_alone=self.origin_topic is not None)

    @property
    def position(self) -> Position:
        return Position(self.first_seen, self.fingerprint)

    @property
    def key(self) -> DeliveryKey | None:
        """Of its delivery; None where it has none: poison, and what the router could not decide."""
        if self.notification_id is None or not self.target_key:
            return None
        return DeliveryKey(self.notification_id, self.channel, self.target_key)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters of a topic are meant; None is any. error: the class, or a part of the detail. since, until
    (aware): first seen from then on, and before then.
    """

    error: str | None = None
    type_name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    campaign_id: UUID | None = None
    provider: str | None = None
    kind: Kind | None = None

    def body(self) -> dict[str, str]:
        """As JSON takes it, without what is not asked for."""
        return {name: _text(value) for name, value in asdict(self).items() if value is not None}

    @classmethod
    def read(cls, body: Mapping[str, str]) -> Self:
        """What `body` wrote."""
        known: dict[str, Any] = {each.name: body[each.name] for each in fields(cls) if each.name in body}
        parsers: Mapping[str, Callable[[str], Any]] = {
            "since": datetime.fromisoformat,
            "until": datetime.fromisoformat,
            "campaign_id": UUID,
            "kind": Kind,
        }
        return cls(**{name: parsers.get(name, str)(value) for name, value in known.items()})


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """Open letters of one topic."""

    topic: str
    counts: Mapping[Kind, int]
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """One replay. counts: what became of letters, by `Verdict`. after: the last letter it has dealt with."""

    id: UUID
    topic: str
    wanted: LetterFilter
    provider: str | None
    rate_per_second: float
    started_by: str
    started_at: datetime
    ended_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    after: Position = BEGINNING


class Ending(NamedTuple):
    """What becomes of a letter. note None: the one there is."""

    letter: Letter
    state: str
    note: str | None


class Poison(NamedTuple):
    """A message that lies in Kafka alone, as it is entered."""

    fingerprint: bytes
    notification_id: UUID | None
    error_class: str
    detail: str
    first_seen: datetime
    origin_topic: str
    partition: int
    offset: int


async def summaries(connection: Connection) -> Sequence[TopicSummary]:
    """Topics that have open letters, by name."""
    return [
        TopicSummary(row["topic"], {kind: row[kind] for kind in Kind}, row["oldest"], row["newest"])
        for row in await connection.fetch(_SQL["summary"])
    ]


async def letters(
    connection: Connection,
    topic: str,
    wanted: LetterFilter,
    *,
    after: Position,
    limit: int,
    state: str | None = OPEN,
    seen_until: datetime | None = None,
    lock: bool = False,
) -> Sequence[Letter]:
    """A page in order of age. seen_until: not those that came (again) later. lock: for this transaction alone, without
    those that another one has locked.
    """
    query = _SQL["letters"] + ("\n   FOR UPDATE OF l SKIP LOCKED" if lock else "")
    rows = await connection.fetch(query, *_arguments(topic, state, wanted, seen_until, after, limit))
    return [_letter(row) for row in rows]


async def count_letters(
    connection: Connection, topic: str, wanted: LetterFilter, *, after: Position, seen_until: datetime | None = None
) -> int:
    """How many open ones `letters` would give, page by page."""
    rows = _arguments(topic, OPEN, wanted, seen_until, after, _COUNTED_AT_MOST)
    return int(await connection.fetchval(f"SELECT count(*) FROM ({_SQL['letters']}) AS found", *rows))


async def find(connection: Connection, id_: str) -> Sequence[Letter]:
    """The letter that the id, or a beginning of it, names; two where it names several. id_: hexadecimal."""
    lowest, highest = (bytes.fromhex(id_.ljust(_FINGERPRINT_DIGITS, digit)) for digit in "0f")
    return [_letter(row) for row in await connection.fetch(_SQL["find"], lowest, highest)]


async def end_letters(
    connection: Connection, endings: Sequence[Ending], *, by: str, run_id: UUID | None = None, requeued: bool = False
) -> int:
    """End those that are still open; how many those were. requeued: `requeue` has closed them in this transaction."""
    if not endings:
        return 0
    status = await connection.execute(
        _SQL["end_letters"],
        [each.letter.topic for each in endings],
        [each.letter.fingerprint for each in endings],
        [each.state for each in endings],
        [each.note for each in endings],
        requeued,
        run_id,
        by[:128],
    )
    return int(status.rpartition(" ")[2])


async def next_offsets(connection: Connection, topic: str) -> Mapping[int, int]:
    """By partition, up to where the topic has been read; partitions that never were are absent."""
    return {row["partition"]: row["next_offset"] for row in await connection.fetch(_SQL["next_offsets"], topic)}


async def enter_poison(
    connection: Connection, topic: str, found: Sequence[Poison], offsets: Mapping[int, int], now: datetime
) -> int:
    """Enter what was read, and how far that was; how many were new."""
    status = "INSERT 0 0"
    if found:
        by_fingerprint = {each.fingerprint: each for each in found}
        status = await connection.execute(
            _SQL["index_poison"], topic, now, *map(list, zip(*by_fingerprint.values(), strict=True))
        )
    await connection.execute(_SQL["save_offsets"], topic, list(offsets), list(offsets.values()))
    return int(status.rpartition(" ")[2])


async def begin_run(connection: Connection, run: Run) -> None:
    await connection.execute(
        _SQL["begin_run"],
        run.id,
        run.topic,
        run.wanted.body(),
        run.provider,
        run.rate_per_second,
        run.started_by[:128],
        run.started_at,
    )


async def load_run(connection: Connection, run_id: UUID) -> Run | None:
    row = await connection.fetchrow(_SQL["load_run"], run_id)
    return None if row is None else _run(row)


async def last_runs(connection: Connection, topic: str | None, limit: int) -> Sequence[Run]:
    """The latest first."""
    return [_run(row) for row in await connection.fetch(_SQL["last_runs"], topic, limit)]


async def lock_run(connection: Connection, run: Run) -> Run | None:
    """As it stands now, for this transaction alone; None once it has ended."""
    row = await connection.fetchrow(_SQL["lock_run"], run.id)
    return None if row is None else _moved(run, row)


async def save_run(connection: Connection, run: Run) -> None:
    await connection.execute(_SQL["save_run"], run.id, dict(run.counts), *run.after)


async def end_run(connection: Connection, run: Run, now: datetime) -> None:
    await connection.execute(_SQL["end_run"], run.id, now)


async def prune_letters(connection: Connection, before: datetime, limit: int) -> int:
    """Forget at most so many that were ended and last seen before then; how many there were."""
    return int((await connection.execute(_SQL["prune_letters"], before, limit)).rpartition(" ")[2])


def _arguments(
    topic: str, state: str | None, wanted: LetterFilter, seen_until: datetime | None, after: Position, limit: int
) -> Sequence[Any]:
    return (
        topic,
        state,
        wanted.error,
        wanted.type_name,
        wanted.since,
        wanted.until,
        wanted.campaign_id,
        wanted.provider,
        wanted.kind,
        seen_until,
        *after,
        limit,
    )


def _letter(row: Any) -> Letter:
    return Letter(
        topic=row["topic"],
        fingerprint=row["fingerprint"],
        notification_id=row["notification_id"],
        channel=row["channel"],
        target_key=row["target_key"],
        error_class=row["error_class"],
        detail=row["detail"],
        state=row["state"],
        note=row["note"],
        first_seen=row["first_seen"],
        last_seen=row["last_seen"],
        origin_topic=row["origin_topic"],
        at=(row["dlq_partition"] or 0, row["dlq_offset"] or 0),
        run_id=row["run_id"],
        ended_by=row["ended_by"],
        type_name=row["type"],
        provider=row["provider"],
        attempt=row["attempt"],
    )


def _run(row: Any) -> Run:
    run = Run(
        id=row["id"],
        topic=row["topic"],
        wanted=LetterFilter.read(row["filters"]),
        provider=row["provider"],
        rate_per_second=row["rate_per_second"],
        started_by=row["started_by"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
    )
    return _moved(run, row)


def _moved(run: Run, row: Any) -> Run:
    after = BEGINNING if row["reached_at"] is None else Position(row["reached_at"], row["reached"])
    return replace(run, counts=dict(row["counts"]), after=after)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
