"""No more of a kind than a user's day takes: places are reserved in Redis before the rows are written."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from redis.exceptions import RedisError

from services.router.notification import Draft, NewContent, Place, Reservation
from shared.core.catalogue import Catalogue
from shared.core.lifecycle import Reason
from shared.decision.chain import ChannelDecision, Decision, RuleVerdict
from shared.decision.facts import Mode
from shared.decision.override import overridden
from shared.decision.verdict import Defer, Go
from shared.facts.frequency import counted, day_of
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.redis_store.cap import COMMIT_WITHIN, Ask, Day, FrequencyCaps, Lost, Unsettled
from shared.runtime.logs import get_logger
from shared.runtime.metrics import CAPS

_log = get_logger(__name__)

_RETRY: Final = timedelta(seconds=30)
"""When what Redis could not count is decided again."""
_SPREAD_MS: Final = 10_000

_PlaceKey = tuple[UUID, str]
"""Notification and channel."""


class Frequency:
    """Turns drafts whose day is full into refusals.

    Redis gone or emptied: what is capped waits, deferred as a whole and decided again, and the rest of the batch goes
    on; so marketing gets later, never more (semantics.md section 5). clock is monotonic, in seconds.
    """

    def __init__(
        self, caps: FrequencyCaps, pool: Pool, *, default_zone: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._caps = caps
        self._pool = pool
        self._default_zone = default_zone
        self._clock = clock

    async def limit(
        self, drafts: Sequence[Draft], catalogue: Catalogue, now: datetime
    ) -> list[tuple[Decision, Reservation | None]]:
        """Each draft's decision as it stands after counting, and what was reserved for it."""
        wanted = {
            (draft.notification.id, place.day.channel): place
            for draft in drafts
            for place in self._places(draft, catalogue, now)
        }
        if not wanted:
            return [(draft.decision, None) for draft in drafts]
        asking = {id_ for id_, _ in wanted}
        commit_by = self._clock() + COMMIT_WITHIN.total_seconds()
        taken = await self._take(wanted, now)
        if isinstance(taken, datetime):
            CAPS.labels("waits").inc(len(wanted))
            return [(_waiting(d, taken) if d.notification.id in asking else d.decision, None) for d in drafts]
        CAPS.labels("granted").inc(sum(taken.values()))
        CAPS.labels("refused").inc(len(taken) - sum(taken.values()))
        return [
            _counted(d, wanted, taken, commit_by) if d.notification.id in asking else (d.decision, None) for d in drafts
        ]

    async def free(self, reservations: Sequence[Reservation]) -> None:
        """Give places back that nothing will use; lost without Redis, which only makes us stricter."""
        places: dict[Day, list[bytes]] = {}
        for reservation in reservations:
            for place in reservation.places:
                places.setdefault(place.day, []).append(place.member)
        if not places:
            return
        try:
            await self._caps.release(places)
        except RedisError as error:
            _log.warning("places_not_freed", places=len(places), error_class=type(error).__name__)

    async def _take(self, wanted: Mapping[_PlaceKey, Place], now: datetime) -> dict[_PlaceKey, bool] | datetime:
        """Whether each has its place; or when to ask again, for all of them."""
        by_day: dict[Day, list[_PlaceKey]] = {}
        for key, place in wanted.items():
            by_day.setdefault(place.day, []).append(key)
        asked = {
            day: Ask(min(wanted[key].limit for key in keys), [wanted[key].member for key in keys])
            for day, keys in by_day.items()
        }
        try:
            answer = await self._caps.reserve(asked)
            if isinstance(answer, Lost):
                answer = await self._caps.reserve(asked, await self._known(answer))
        except RedisError as error:
            _log.warning("caps_not_counted", waiting=len(wanted), error_class=type(error).__name__)
            return now + _RETRY
        if isinstance(answer, Unsettled):
            return answer.until
        if isinstance(answer, Lost):  # lost again in between
            return now + _RETRY
        return {key: granted for day, keys in by_day.items() for key, granted in zip(keys, answer[day], strict=True)}

    async def _known(self, lost: Lost) -> dict[Day, frozenset[bytes]]:
        with translated():
            async with self._pool.acquire() as connection:
                return await counted(connection, lost.days)

    def _places(self, draft: Draft, catalogue: Catalogue, now: datetime) -> Sequence[Place]:
        """One for each channel that goes, is written and has a cap. Test keys count in none (semantics.md, 3)."""
        notification = draft.notification
        if notification.user_id is None or notification.mode is Mode.TEST or draft.decision.defer_until is not None:
            return ()
        return [
            Place(
                day_of(
                    notification.user_id,
                    draft.type.category,
                    channel,
                    notification.recipient.zone,
                    self._default_zone,
                    now,
                ),
                limit,
                notification.member,
            )
            for channel, written in draft.content.items()
            if isinstance(written, NewContent)
            and (limit := catalogue.daily_cap(draft.type.category, channel)) is not None
        ]


def _counted(
    draft: Draft, wanted: Mapping[_PlaceKey, Place], taken: Mapping[_PlaceKey, bool], commit_by: float
) -> tuple[Decision, Reservation | None]:
    id_ = draft.notification.id
    refused = {c.channel: Reason.CAPPED for c in draft.decision.channels if not taken.get((id_, c.channel), True)}
    places = tuple(wanted[id_, c.channel] for c in draft.decision.channels if taken.get((id_, c.channel), False))
    decision = overridden(draft.decision, refused) if refused else draft.decision
    return decision, Reservation(places, commit_by) if places else None


def _waiting(draft: Draft, until: datetime) -> Decision:
    spread = timedelta(milliseconds=draft.notification.id.int % _SPREAD_MS)
    wait = Defer(until + spread, Reason.CAPPED)
    return Decision(tuple(_with(c, wait) if isinstance(c.verdict, Go) else c for c in draft.decision.channels))


def _with(channel: ChannelDecision, wait: Defer) -> ChannelDecision:
    trail = (*channel.trail, RuleVerdict("frequency", wait))
    return replace(channel, verdict=wait, trail=trail, targets=(), refusals=(), send_until=None)
