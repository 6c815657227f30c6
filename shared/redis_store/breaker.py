"""Breakers that all workers share, in Redis; each worker's own while there is none (semantics.md, section 5)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import structlog
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from shared.core.breaker import Breaker, Mark, Phase, Policy, Run, Slot, Switch, allow, observe
from shared.runtime.metrics import BREAKER_PHASE, PROVIDER_SWITCHES, REDIS_FALLBACK
from shared.wire.channel import MessageClass

_SCRIPT: Final = (Path(__file__).parent / "breaker.lua").read_text(encoding="utf-8")
_PHASES: Final = {phase.value: phase for phase in Phase}
_PHASE_NUMBER: Final = {Phase.CLOSED: 0, Phase.HALF_OPEN: 1, Phase.OPEN: 2}

REFRESH_SEC: Final = 0.5
"""So old what a worker knows of the others' failures may be, and so long it keeps plain successes to itself."""

_log = structlog.get_logger(__name__)


class Guarded(NamedTuple):
    """What one breaker is of: an account's messages of one class."""

    account: str
    message_class: MessageClass


class BreakerScript:
    """The script and its keys. Raises redis.RedisError as the client does."""

    def __init__(self, redis: Redis, key_prefix: str, policy: Policy) -> None:
        self._redis = redis
        self._prefix = key_prefix
        self._policy = tuple(
            str(value)
            for value in (
                policy.failures_in_row,
                policy.window_ms,
                policy.min_calls,
                policy.rate_percent,
                policy.open_ms,
                policy.probes,
                policy.probe_every_ms,
                policy.recovery_ms,
            )
        )
        self._sha = ""

    async def observe(
        self, guarded: Guarded, *, since: int, seen: Sequence[Run], detail: str, now: int | None = None
    ) -> tuple[Breaker, Switch | None]:
        """As `shared.core.breaker.observe`, on what Redis holds. now None: by its clock."""
        counts = [part for run in seen for part in (run.mark.value, str(run.times))]
        breaker, _, switch = await self._run(guarded, now, "observe", str(since), detail, *counts)
        return breaker, switch

    async def allow(
        self, guarded: Guarded, *, wanted: int, urgent: bool, now: int | None = None
    ) -> tuple[Breaker, int, Switch | None]:
        """As `shared.core.breaker.allow`."""
        return await self._run(guarded, now, "allow", str(wanted), str(int(urgent)))

    async def retry(self, guarded: Guarded, *, now: int | None = None) -> Breaker:
        """As `shared.core.breaker.retry`."""
        return (await self._run(guarded, now, "retry"))[0]

    async def read(self, guarded: Guarded) -> Breaker:
        """As it is."""
        return (await self.observe(guarded, since=0, seen=(), detail=""))[0]

    async def _run(self, guarded: Guarded, now: int | None, *arguments: str) -> tuple[Breaker, int, Switch | None]:
        # The braces keep one account's keys in one slot of a cluster.
        key = f"{self._prefix}breaker:{{{guarded.account}}}:{guarded.message_class.label}"
        given = ("" if now is None else str(now), *self._policy, *arguments)
        try:
            answer = await self._redis.evalsha(self._sha or await self._load(), 1, key, *given)
        except NoScriptError:  # nothing has run; EVAL brings the script along and keeps it (R3)
            answer = await self._redis.eval(_SCRIPT, 1, key, *given)
        stored, granted, before, after, reason = answer
        switch = Switch(_PHASES[before.decode()], _PHASES[after.decode()], reason.decode()) if before else None
        return _breaker(stored), int(granted), switch

    async def _load(self) -> str:
        self._sha = str(await self._redis.script_load(_SCRIPT))
        return self._sha


Told = Callable[[str, MessageClass, Switch], Awaitable[None]]
"""Hears of each switch (account, class) once, of all workers by the one that caused it. Must not raise."""


class Breakers:
    """What this process knows of them, and what it has seen. For one event loop.

    Asking costs nothing, and plain successes cost one call to Redis for all of half a second; failures are told at
    once. Without Redis (None, or while it is away) every worker goes by what itself has seen.
    """

    def __init__(
        self,
        script: BreakerScript | None,
        policy: Policy,
        *,
        told: Told,
        retry_sec: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.policy: Final = policy
        self._script = script
        self._told = told
        self._retry_sec = retry_sec
        self._clock = clock
        self._away_until = float("-inf")
        self._known: dict[Guarded, Breaker] = {}
        self._worked: dict[Guarded, int] = {}
        self._asked: set[Guarded] = set()

    def now(self) -> int:
        """Milliseconds since 1970, by this process."""
        return int(self._clock() * 1000)

    def known(self, guarded: Guarded) -> Breaker:
        """As of half a second ago, or of the last failure here; after a time in which nobody asked, of the last one."""
        self._asked.add(guarded)
        return self._known.setdefault(guarded, Breaker())

    async def report(self, guarded: Guarded, *, since: int, seen: Sequence[Run], detail: str) -> None:
        """Outcomes in their order, of sends that began while `known` was of `since`. detail: of the last failure."""
        known = self.known(guarded)
        if not seen or since != known.since:
            return
        if known.phase is Phase.CLOSED and all(run.mark is Mark.OK for run in seen):
            self._worked[guarded] = self._worked.get(guarded, 0) + sum(run.times for run in seen)
            return
        await self._observe(guarded, since, seen, detail)

    async def allow(self, guarded: Guarded, wanted: int, *, urgent: bool) -> int:
        """How many of `wanted` sends may begin, whatever others are told: see `shared.core.breaker.allow`."""
        script = self._reachable()
        if script is not None:
            try:
                breaker, granted, switch = await script.allow(guarded, wanted=wanted, urgent=urgent)
            except RedisError as error:
                self._redis_gone(error)
            else:
                await self._learn(guarded, breaker, switch)
                return granted
        breaker, granted, switch = allow(self.policy, self.known(guarded), self.now(), wanted=wanted, urgent=urgent)
        await self._learn(guarded, breaker, switch)
        return granted

    async def refresh(self) -> None:
        """Tell what worked, and hear of the others, for every breaker that was asked for since the last time."""
        asked, self._asked = self._asked, set()
        for guarded in asked:
            await self._observe(guarded, self._known[guarded].since, (), "")

    async def run(self) -> None:
        """Keep all of them up to date until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_SEC)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001  without it no worker would hear of the others
                _log.exception("breakers_not_refreshed")

    async def _observe(self, guarded: Guarded, since: int, seen: Sequence[Run], detail: str) -> None:
        worked = self._worked.pop(guarded, 0)
        told = (Run(Mark.OK, worked), *seen) if worked else seen
        script = self._reachable()
        if script is not None:
            try:
                await self._learn(guarded, *await script.observe(guarded, since=since, seen=told, detail=detail))
            except RedisError as error:
                self._redis_gone(error)
            else:
                return
        known = self.known(guarded)
        await self._learn(guarded, *observe(self.policy, known, self.now(), since=since, seen=told, detail=detail))

    async def _learn(self, guarded: Guarded, breaker: Breaker, switch: Switch | None) -> None:
        self._known[guarded] = breaker
        BREAKER_PHASE.labels(guarded.account, guarded.message_class.label).set(_PHASE_NUMBER[breaker.phase])
        if switch is None:
            return
        PROVIDER_SWITCHES.labels(guarded.account, guarded.message_class.label, switch.after).inc()
        log = _log.error if switch.after is Phase.OPEN else _log.warning
        log(
            f"breaker_{switch.after}",
            provider=guarded.account,
            message_class=guarded.message_class.label,
            before=switch.before,
            reason=switch.reason,
        )
        await self._told(guarded.account, guarded.message_class, switch)

    def _reachable(self) -> BreakerScript | None:
        return self._script if self._clock() >= self._away_until else None

    def _redis_gone(self, error: RedisError) -> None:
        self._away_until = self._clock() + self._retry_sec
        REDIS_FALLBACK.inc()
        _log.warning("redis_unreachable", error_class=type(error).__name__, effect="this worker's own breakers")


@asynccontextmanager
async def kept_current(breakers: Breakers) -> AsyncIterator[Breakers]:
    """Kept up to date for the length of the block."""
    task = asyncio.create_task(breakers.run())
    try:
        yield breakers
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _breaker(stored: bytes) -> Breaker:
    if not stored:
        return Breaker()
    state: dict[str, Any] = orjson.loads(stored)
    return Breaker(
        phase=_PHASES[state["phase"]],
        since=int(state["since"]),
        reason=state["reason"],
        failures=int(state["failures"]),
        window=tuple(Slot(*(int(part) for part in slot)) for slot in state["window"] or ()),  # Lua's {} may be either
        until=int(state["until"]),
        probe_at=int(state["probeAt"]),
        wins=int(state["wins"]),
    )
