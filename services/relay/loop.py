"""How each of the relay's parts runs: round after round, alone, failing alone."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from services.relay.error import EXPECTED
from shared.runtime.logs import get_logger
from shared.runtime.metrics import RELAY_FAILURES
from shared.runtime.service import Stop

_FIRST_BACK_OFF_SEC: Final = 0.2
_LONGEST_BACK_OFF_SEC: Final = 15.0
_UNREADY_AFTER: Final = 3

_log = get_logger(__name__)

Work = Callable[[], Awaitable[bool]]
"""One round: True if there is more to do at once, False if it found nothing more."""


def back_off_sec(failures: int) -> float:
    """Rest after that many failures in a row: doubling from 0.2 s, at most 15 s. 0 failures: no rest."""
    if failures == 0:
        return 0.0
    return float(min(_FIRST_BACK_OFF_SEC * 2 ** min(failures - 1, 16), _LONGEST_BACK_OFF_SEC))


def rest_sec(idle_sec: float, longest_sec: float | None, empty_rounds: int) -> float:
    """Rest after that many rounds in a row that found nothing: doubling up to the longest; None: always the same."""
    if longest_sec is None:
        return idle_sec
    return float(min(max(longest_sec, idle_sec), idle_sec * 2 ** min(empty_rounds, 16)))


@dataclass(slots=True)
class Loop:
    """Repeats `work` until stop: at once while there is more, else after `idle_sec` or when woken.

    longest_idle_sec: what the rest grows to while `found` says that rounds find nothing, so that an idle process costs
    next to nothing; work that comes without a NOTIFY (a service may drop its trigger) keeps the rests short.
    channel: the NOTIFY channel whose messages wake it. A round that fails is logged, counted and tried again with
    back-off; no other loop notices. A round is not interrupted by stop: what it publishes and commits stays together.
    """

    name: str
    work: Work
    idle_sec: float
    channel: str | None = None
    longest_idle_sec: float | None = None
    found: Callable[[], bool] = lambda: False
    """Whether the last round found anything."""
    failures: int = 0
    _empty_rounds: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Look now, if idle. Also resets nothing else: a failing loop keeps its back-off."""
        self._wake.set()

    def healthy(self) -> bool:
        """Whether it is not failing again and again."""
        return self.failures < _UNREADY_AFTER

    async def run(self, stop: Stop) -> None:
        """Returns after stop was requested, between two rounds."""
        while not stop.requested:
            started = time.monotonic()
            try:
                more = await self.work()
            except Exception as error:  # noqa: BLE001  isolation: whatever it is, the other loops go on, and it is tried again
                self.failures += 1
                RELAY_FAILURES.labels(self.name.split("@", maxsplit=1)[0]).inc()
                _log.warning(
                    "relay_round_failed",
                    loop=self.name,
                    failures=self.failures,
                    after_sec=round(time.monotonic() - started, 3),
                    error_class=type(error).__name__,
                    error=str(error)[:300],
                    exc_info=self.failures == 1 and not isinstance(error, EXPECTED),
                )
                await stop.sleep(back_off_sec(self.failures))
                continue
            self.failures = 0
            self._empty_rounds = 0 if more or self.found() else self._empty_rounds + 1
            if not more:
                await self._rest(stop)

    async def _rest(self, stop: Stop) -> None:
        stopped = asyncio.ensure_future(stop.wait())
        woken = asyncio.ensure_future(self._wake.wait())
        timeout = rest_sec(self.idle_sec, self.longest_idle_sec, self._empty_rounds)
        try:
            await asyncio.wait({stopped, woken}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopped, woken):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            self._wake.clear()
