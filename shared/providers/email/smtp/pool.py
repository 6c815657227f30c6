"""The kept connections to one relay: which of them a mail goes over, and when another one is opened."""

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from shared.providers.deadline import bounded
from shared.providers.email.smtp.session import PROMPT_SEC, Session
from shared.providers.email.smtp.settings import SmtpSettings


class Connections:
    """At most `settings.concurrency` that take mail, opened as they are needed. For one event loop.

    deepens: called with True when a connection takes the next mail before it has answered the last one, and is prompt,
    so that mails may be sent two at a time; with False when that is over.
    """

    def __init__(self, settings: SmtpSettings, context: ssl.SSLContext, deepens: Callable[[bool], None]) -> None:
        self._settings: Final = settings
        self._context = context
        self._deepens = deepens
        self._deep = False
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
        session.moved_at = time.monotonic()
        if not session.mails and self._busy.pop(session, session) is None:
            self._free[session] = None
        deep = session.pipelining and session.prompt
        if deep != self._deep:
            self._deep = deep
            self._deepens(deep)

    async def close(self) -> None:
        """Say goodbye on each."""
        await asyncio.gather(*(session.quit() for session in (*self._free, *self._busy)))

    def _kept(self) -> Session | None:
        """One that is open; None: another has to be."""
        self._let_go()
        session: Session | None = None
        if self._free:
            session, _ = self._free.popitem()
            session.moved_at = time.monotonic()
            self._busy[session] = None
        elif self._busy and len(self._busy) + self._opening >= self._settings.concurrency:
            session = min(self._busy, key=partial(_load, time.monotonic()))
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
        return session

    def _closes(self, session: Session) -> None:
        self._free.pop(session, None)
        self._busy.pop(session, None)

    def _let_go(self) -> None:
        """Close those that nobody has needed for a while."""
        oldest = time.monotonic() - self._settings.idle_sec
        while self._free and (session := next(iter(self._free))).moved_at < oldest:
            session.abandon()


def _load(now: float, session: Session) -> tuple[bool, int]:
    """A connection that is stuck in a mail is worse than one with another mail."""
    return now - session.moved_at > PROMPT_SEC, session.mails
