"""`ulak.recipient.upserted.v1`: what another system knows of a recipient, told by an event."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg
from pydantic import ValidationError

from services.router.application import ApplicationCache
from services.router.cloudevent import CloudEvent
from services.router.mapping import Unmappable
from shared.kafka.record import Received, Rejection
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.recipient import RecipientProfile, put_dated
from shared.profile.recipient import SaidRecipient
from shared.runtime.keyring import RingSource
from shared.web.invalid import invalid_fields
from shared.web.problem import FieldError

UPSERTED: Final = "ulak.recipient.upserted.v1"

Next = Callable[[Sequence[Received[CloudEvent]]], Awaitable[Sequence[Rejection]]]
_Dated = tuple[int, RecipientProfile, datetime]
"""The message's place in the batch, what it says, and when that was so."""


@dataclass(frozen=True, slots=True)
class _Read:
    dated: list[_Dated]
    problems: dict[int, Unmappable]


class RecipientEvents:
    """Takes recipients out of a batch of events, and leaves the others to whoever comes next.

    Recipients first: an event of the same batch may be about one of them. The latest event of a user wins, whatever
    order they come in, so that one that is read again changes nothing; and a change that was made here since stays.
    """

    def __init__(
        self,
        following: Next,
        pool: Pool,
        applications: ApplicationCache,
        rings: RingSource,
        clock: Callable[[], datetime],
    ) -> None:
        self._following = following
        self._pool = pool
        self._applications = applications
        self._rings = rings
        self._clock = clock

    async def __call__(self, batch: Sequence[Received[CloudEvent]]) -> Sequence[Rejection]:
        """Returns when all is committed, with the poison among the events. Raises UnavailableError."""
        others = [index for index, received in enumerate(batch) if received.value.type != UPSERTED]
        if len(others) == len(batch):
            return await self._following(batch)
        read = await self._read(batch)
        for wave in waves(read.dated):
            read.problems.update(await self._store(wave))
        rejections = [Rejection(index, problem.reason, problem.detail) for index, problem in read.problems.items()]
        if others:
            found = await self._following([batch[index] for index in others])
            rejections += [Rejection(others[each.index], each.reason, each.detail) for each in found]
        return sorted(rejections, key=lambda rejection: rejection.index)

    async def _read(self, batch: Sequence[Received[CloudEvent]]) -> _Read:
        found = _Read([], {})
        now = self._clock()
        for index, received in enumerate(batch):
            event = received.value
            if event.type != UPSERTED:
                continue
            if await self._applications.of_source(event.source) is None:
                found.problems[index] = Unmappable(
                    "unknown_source", "no application has this CloudEvents `source`: name it, then `replay`"
                )
                continue
            profile = read_recipient(event.body.get("data"))
            if isinstance(profile, Unmappable):
                found.problems[index] = profile
            else:
                # A clock that is ahead must not shut later changes out.
                found.dated.append((index, profile, min(event.time or received.timestamp, now)))
        return found

    async def _store(self, wave: Sequence[_Dated]) -> dict[int, Unmappable]:
        """All at once; where the database refuses a row, one after the other."""
        try:
            await self._put(wave)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            if len(wave) == 1:
                return {wave[0][0]: Unmappable("unstorable", f"the database refused the row: {type(error).__name__}")}
            problems: dict[int, Unmappable] = {}
            for each in wave:
                problems |= await self._store([each])
            return problems
        return {}

    async def _put(self, wave: Sequence[_Dated]) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await put_dated(
                    connection,
                    self._rings.ring,
                    [profile for _, profile, _ in wave],
                    [moment for _, _, moment in wave],
                )


def read_recipient(data: Any) -> RecipientProfile | Unmappable:
    """What the event says; or what is wrong with it, by the fields' names. Pure."""
    try:
        profile = SaidRecipient.model_validate(data).profile()
    except ValidationError as error:
        profile = invalid_fields(error).errors
    return _unmappable(profile) if isinstance(profile, tuple) else profile


def waves(dated: Sequence[_Dated]) -> Iterator[Sequence[_Dated]]:
    """Earlier moments first, and no user twice in one statement. Pure."""
    rest = sorted(dated, key=lambda each: (each[2], each[0]))
    while rest:
        first: dict[str, _Dated] = {}
        rest = [each for each in rest if first.setdefault(each[1].external_id, each) is not each]
        yield list(first.values())


def _unmappable(wrong: Sequence[FieldError]) -> Unmappable:
    where = f"data.{wrong[0].path}" if wrong[0].path else "data"
    path = "".join(character if character.isprintable() else "?" for character in where)
    return Unmappable("invalid_recipient", f"{path[:128]}: {wrong[0].detail}")
