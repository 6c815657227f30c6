"""How often a day: sets of notifications per user, category, channel and local day (seed 003; semantics.md section 5).

Exact under concurrency (one script decides and adds) and redelivery (a member that is in counts once). What a lost
Redis knew comes back from PostgreSQL: see `FrequencyCaps.reserve`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

SETTLE: Final = timedelta(seconds=15)
"""After a loss nothing is let through for so long. Whoever reserved before it has committed by then, or never will
(`COMMIT_WITHIN`), so that PostgreSQL knows all that counts."""
COMMIT_WITHIN: Final = timedelta(seconds=10)
"""A reservation that is older when its transaction is to be committed must be made again."""
_CLOCKS: Final = timedelta(minutes=1)
"""How far our clock and Redis' may be apart."""
_MARGIN: Final = timedelta(hours=1)
"""How long a set outlives its day: batches decided right before midnight."""
_ROUNDS: Final = 3
_MS: Final = timedelta(milliseconds=1)

_CAP: Final = (Path(__file__).parent / "cap.lua").read_text(encoding="utf-8")
_EPOCH: Final = (Path(__file__).parent / "epoch.lua").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Day:
    """One user's count. begins and ends are the instants between which it is `date` where the user lives."""

    user_id: int
    category: str
    channel: str
    date: date
    begins: datetime
    ends: datetime

    def __hash__(self) -> int:
        # Looked up half a dozen times a notification; the generated one hashes six fields each time.
        return hash((self.user_id, self.channel, self.date))


@dataclass(frozen=True, slots=True)
class Ask:
    """Who wants to be counted in one day, in the order in which they are let in; never more than `limit` in all."""

    limit: int
    members: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Lost:
    """What was counted of these days is not known here: bring what PostgreSQL knows and ask again."""

    days: frozenset[Day]


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Redis was emptied a moment ago: ask again then."""

    until: datetime


class FrequencyCaps:
    """The script and its keys. Raises redis.RedisError when Redis cannot say; what was added by then stays, and is
    the same when it is asked for again.
    """

    def __init__(self, redis: Redis, key_prefix: str) -> None:
        self._redis = redis
        self._prefix = key_prefix
        self._epoch: int | None = None
        self._shas: tuple[str, str] | None = None

    async def begin(self) -> int:
        """Since when Redis keeps counts (its own clock, milliseconds). Asked at the start of a process, so that a fresh
        one has settled when the first notification comes.
        """
        ((since, _),) = await self._run(0, {}, {})
        self._epoch = since
        return int(since)

    async def reserve(
        self, asked: Mapping[Day, Ask], known: Mapping[Day, Collection[bytes]] | None = None
    ) -> dict[Day, tuple[bool, ...]] | Lost | Unsettled:
        """Whether each member may go, by day, first come first served. One round trip for all.

        A day whose set is missing is empty if Redis has kept its keys since before it began. Else Lost names it, and
        `known` must have it the next time: the members that PostgreSQL has committed.
        """
        for _ in range(_ROUNDS):
            epoch = await self.begin() if self._epoch is None else self._epoch
            *answers, (since, now) = await self._run(epoch, asked, known or {})
            self._epoch = since
            if since != epoch:
                continue  # emptied since we looked, so these were another life's keys
            if now - since < SETTLE / _MS:
                return Unsettled(datetime.now(UTC) + SETTLE - (now - since) * _MS)
            lost = frozenset(day for day, answer in zip(asked, answers, strict=True) if answer == [-1])
            if lost:
                return Lost(lost)
            return {day: tuple(value == 1 for value in answer) for day, answer in zip(asked, answers, strict=True)}
        raise RedisError("Redis is emptied again and again")

    async def release(self, reserved: Mapping[Day, Collection[bytes]]) -> None:
        """Take back what will not be sent after all."""
        epoch = await self.begin() if self._epoch is None else self._epoch
        async with self._redis.pipeline(transaction=False) as pipeline:
            for day, members in reserved.items():
                pipeline.srem(self._key(day, epoch), *members)
            await pipeline.execute()

    async def _run(
        self, epoch: int, asked: Mapping[Day, Ask], known: Mapping[Day, Collection[bytes]]
    ) -> list[list[int]]:
        """All of them, and then the epoch, so that a loss in between is seen.

        Sent again whole where the server has forgotten the scripts (R3): unlike tokens, members count once however
        often they are added.
        """
        calls = [(self._key(day, epoch), _arguments(day, ask, epoch, known.get(day))) for day, ask in asked.items()]
        if self._shas is None:
            self._shas = (str(await self._redis.script_load(_CAP)), str(await self._redis.script_load(_EPOCH)))
        try:
            return await self._send("evalsha", *self._shas, calls)
        except NoScriptError:  # EVAL brings the scripts along, so that another flush cannot fail this one
            return await self._send("eval", _CAP, _EPOCH, calls)

    async def _send(
        self, command: str, cap: str, epoch: str, calls: Sequence[tuple[str, tuple[Any, ...]]]
    ) -> list[list[int]]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key, arguments in calls:
                getattr(pipeline, command)(cap, 1, key, *arguments)
            getattr(pipeline, command)(epoch, 1, f"{self._prefix}cap:epoch")
            answers: list[list[int]] = await pipeline.execute()
        return answers

    def _key(self, day: Day, epoch: int) -> str:
        # The braces keep one user's keys in one slot of a cluster; no call touches two users. The epoch is in the name,
        # so that whoever has not heard of a loss yet begins no set that looks as if it were whole.
        name = f"{day.category}:{day.channel}:{day.date:%Y%m%d}:{epoch}"
        return f"{self._prefix}cap:{{{day.user_id}}}:{name}"


def _arguments(day: Day, ask: Ask, epoch: int, known: Collection[bytes] | None) -> tuple[Any, ...]:
    kept = day.begins >= datetime.fromtimestamp(epoch / 1000, UTC) + _CLOCKS
    until = int((day.ends + _MARGIN).timestamp() * 1000)
    told = () if known is None else known
    return (ask.limit, until, int(kept or known is not None), len(told), *told, *ask.members)
