"""Accepted notifications in PostgreSQL: one group, one statement, one commit."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from services.ingest.fast_publish import OUTBOX_DELAY_SEC, FastPublisher
from services.ingest.group_commit import BadRowError
from services.ingest.row import (
    Acceptance,
    NotificationRow,
    Standing,
    first_of_each_key,
    merged_profiles,
    standing,
)
from shared.core.lifecycle import NotificationState
from shared.postgres.errors import PartitionMissingError, UnavailableError, translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger

_log = get_logger(__name__)

_TRIES: Final = 4
_LOST_RACES: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

DedupKey = tuple[int, str, str]


class Holder(NamedTuple):
    """Who holds a dedup key: the notification, its request's fingerprint, and the asking row's recipient."""

    notification_id: UUID
    fingerprint: bytes
    user_id: int


class NotificationStore:
    """`commit` is the group commit's: durable when it returns, and safe to call again with the same rows."""

    def __init__(self, pool: Pool, publisher: FastPublisher, *, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._publisher = publisher
        self._clock = clock
        self._accept = load_queries("ingest")["accept_notifications"]
        self._locale = load_queries("ingest")["recipient_locale"]

    async def commit(self, rows: Sequence[NotificationRow]) -> list[Acceptance]:
        """Store a group; one answer per row, in order. Publishes the hints of those that are new.

        Raises BadRowError (split the group), PartitionMissingError, or UnavailableError: then nobody knows whether
        it was committed, and the caller's repetition finds out.
        """
        holders = await self._store(first_of_each_key(rows))
        answers = [_acceptance(row, holders[row.dedup_key]) for row in rows]
        fresh = [
            row
            for row, answer in zip(rows, answers, strict=True)
            if answer.standing is Standing.FIRST and row.state is NotificationState.ACCEPTED
        ]
        self._publisher.publish(
            [row.id for row in fresh],
            [row.message.record(str(holders[row.dedup_key].user_id).encode()) for row in fresh],
        )
        return answers

    async def locale(self, external_id: str) -> str | None:
        """What is known of the language this recipient reads."""
        with translated():
            locale: str | None = await self._pool.fetchval(self._locale, external_id)
        return locale

    async def _store(self, rows: Sequence[NotificationRow]) -> dict[DedupKey, Holder]:
        """Insert until every row's key has a visible holder: rows that lost a race are asked for again.

        A lost connection is tried once more as well: rows carry their ids, so those that were committed after all
        are found to hold their own keys.
        """
        holders: dict[DedupKey, Holder] = {}
        open_rows = list(rows)
        for attempt in range(1, _TRIES + 1):
            try:
                found = await self._insert(open_rows)
            except (UnavailableError, *_LOST_RACES) as error:
                if attempt == _TRIES or (attempt > 1 and isinstance(error, UnavailableError)):
                    raise UnavailableError("PostgreSQL could not store the request now") from error
                _log.warning("group_commit_retried", rows=len(open_rows), error=type(error).__name__)
                continue
            undecided: list[NotificationRow] = []
            for row in open_rows:
                holder = found.get(row.id)
                if holder is None:
                    undecided.append(row)
                else:
                    holders[row.dedup_key] = holder
            if not undecided:
                return holders
            open_rows = undecided
        raise UnavailableError("the same keys are being taken at once by too many: try again")

    async def _insert(self, rows: Sequence[NotificationRow]) -> dict[UUID, Holder]:
        """One statement; who holds each row's key, by the row's id, as far as it can be seen."""
        available_at = self._clock() + timedelta(seconds=OUTBOX_DELAY_SEC)
        with storing():
            records = await self._pool.fetch(self._accept, *_columns(rows), *_profile_columns(rows, available_at))
        return {
            identifier: Holder(holder, fingerprint, user_id)
            for identifier, user_id, holder, fingerprint in records
            if holder is not None
        }


@contextmanager
def storing() -> Iterator[None]:
    """What the database says of rows: BadRowError for what one of them holds, a missing partition by its name."""
    try:
        with translated():
            yield
    except asyncpg.CheckViolationError as error:
        if "no partition" in str(error):
            raise PartitionMissingError("today's partition is missing: run `ulak db partitions`") from error
        raise BadRowError(f"{type(error).__name__} by {error.constraint_name}") from error
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError) as error:
        # The class alone: the message may quote the row.
        raise BadRowError(type(error).__name__) from error


def _columns(rows: Sequence[NotificationRow]) -> tuple[list[Any], ...]:
    return (
        [row.id for row in rows],
        [row.application_id for row in rows],
        [row.event_id for row in rows],
        [row.mapping for row in rows],
        [row.fingerprint for row in rows],
        [row.kept_until for row in rows],
        [row.external_id for row in rows],
        [row.type for row in rows],
        [row.message_class for row in rows],
        [row.mode for row in rows],
        [row.state for row in rows],
        [row.params_sealed for row in rows],
        _sparse([row.channels for row in rows]),
        _sparse([row.locale for row in rows]),
        _sparse([row.business_key for row in rows]),
        _sparse([row.collapse_key for row in rows]),
        _sparse([row.event_time for row in rows]),
        _sparse([row.send_at for row in rows]),
        [row.expires_at for row in rows],
        [row.api_key_id for row in rows],
        _sparse([row.traceparent for row in rows]),
        [row.created_at for row in rows],
        [row.message.topic for row in rows],
        [row.message.payload for row in rows],
        [row.message.headers_json for row in rows],
    )


def _profile_columns(rows: Sequence[NotificationRow], available_at: datetime) -> tuple[Any, ...]:
    profiles = merged_profiles(rows)
    values = profiles.values()
    return (
        list(profiles),
        _sparse([profile.email_key for profile in values]),
        _sparse([profile.email_sealed for profile in values]),
        _sparse([profile.phone_key for profile in values]),
        _sparse([profile.phone_sealed for profile in values]),
        _sparse([profile.locale for profile in values]),
        _sparse([profile.time_zone for profile in values]),
        available_at,
        any(row.profile is not None for row in rows),
    )


def _sparse(column: list[Any]) -> list[Any]:
    """A column that nobody fills costs nothing to send: unnest pads the shorter arrays with NULL."""
    return column if any(value is not None for value in column) else []


def _acceptance(row: NotificationRow, holder: Holder) -> Acceptance:
    found = standing(
        own_id=row.id,
        own_fingerprint=row.fingerprint,
        holder=holder.notification_id,
        holder_fingerprint=holder.fingerprint,
    )
    return Acceptance(holder.notification_id, found)
