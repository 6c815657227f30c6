"""The kept connections to one relay: which of them a mail goes over, and when another one is opened."""

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from shared.providers.deadline import bounded
from shared.providers.email.smtp.session import Session
from shared.providers.email.smtp.settings import SmtpSettings


class Connections:
    """At most `settings.concurrency` that take mail, opened as they are needed. For one event loop.

    pipelines: called when a connection was opened that takes the next mail before it has answered the last one.
    """

    def __init__(self, settings: SmtpSettings, context: ssl.SSLContext, pipelines: Callable[[], None]) -> None:
        self._settings: Final = settings
        self._context = context
        self._pipelines = pipelines
        self._free: dict[Session, None] = {}
        """Those that carry nothing, the one used last at the end."""
        self._busy: dict[Session, None] = {}
        self._opening = 0
        self._doors = asyncio.Semaphore(settings.concurrency)

    async def take(self, deadline: float) -> Session:
        """One that takes a mail, until it is given `back`; DialogueError, TimeoutError at the deadline.

        The one used last of those that carry nothing, so that those not needed grow idle and are let go. Once there are
        as many as there may be, the one that carries the least.
        """
        session = self._kept()
        return session if session is not None else await bounded(self._another(), deadline - time.monotonic())

    def back(self, session: Session) -> None:
        """It carries one mail less."""
        session.mails -= 1
        if not session.mails and self._busy.pop(session, session) is None:
            session.used_at = time.monotonic()
            self._free[session] = None

    async def close(self) -> None:
        """Say goodbye on each."""
        await asyncio.gather(*(session.quit() for session in (*self._free, *self._busy)))

    def _kept(self) -> Session | None:
        """One that is open; None: another has to be."""
        self._let_go()
        session: Session | None = None
        if self._free:
            session, _ = self._free.popitem()
            self._busy[session] = None
        elif self._busy and len(self._busy) + self._opening >= self._settings.concurrency:
            session = min(self._busy, key=_load)
        if session is not None:
            session.mails += 1
        return session

    async def _another(self) -> Session:
        """One that is opened now, or one that has come free meanwhile."""
        async with self._doors:
            session = self._kept()
            return session if session is not None else await self._opened()

    async def _opened(self) -> Session:
        self._opening += 1
        try:
            session = await Session.open(self._settings, self._context)
        finally:
            self._opening -= 1
        session.mails = 1
        session.on_closing(partial(self._closes, session))
        if not session.closing:
            self._busy[session] = None
        if session.pipelining:
            self._pipelines()
        return session

    def _closes(self, session: Session) -> None:
        self._free.pop(session, None)
        self._busy.pop(session, None)

    def _let_go(self) -> None:
        """Close those that nobody has needed for a while."""
        oldest = time.monotonic() - self._settings.idle_sec
        while self._free and (session := next(iter(self._free))).used_at < oldest:
            session.abandon()


def _load(session: Session) -> int:
    return session.mails
