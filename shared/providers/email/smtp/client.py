"""A relay over kept connections."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from shared.core.outcome import NotSent, Outcome, Permanent
from shared.core.ports import Prepared, Sender, SendWindow
from shared.providers.deadline import bounded
from shared.providers.email.smtp.classify import Phase
from shared.providers.email.smtp.mime import Mail, build
from shared.providers.email.smtp.session import DialogueError, Session
from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.registry import Provider
from shared.providers.slots import Slots

NAME: Final = "smtp"


class SmtpSender:
    """`Sender` for one relay. Connections are opened as they are needed, at most `concurrency`, and kept."""

    provider: Final = NAME

    def __init__(
        self,
        settings: SmtpSettings,
        context: ssl.SSLContext,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert settings.from_address is not None
        self._settings = settings
        self._from_address = settings.from_address
        self._context = context
        self._clock = clock
        self._idle: list[Session] = []
        self._slots = Slots(settings.concurrency)
        self.concurrency: Final = settings.concurrency

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def close(self) -> None:
        """Say goodbye on every kept connection."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(session.quit() for session in idle))

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        deadline = time.monotonic() + deadline_sec
        try:
            mail = build(
                message, from_address=self._from_address, from_name=self._settings.from_name, now=self._clock()
            )
        except ValueError as error:
            return Permanent(f"not a mail: {type(error).__name__}")
        return await self._deliver(mail, deadline)

    async def _deliver(self, mail: Mail, deadline: float) -> Outcome:
        """On a kept connection, and on a fresh one if the kept one had gone stale before it was of use (E4)."""
        session = self._take()
        if session is not None:
            try:
                return await self._on(session, mail, deadline)
            except DialogueError as error:
                if not (error.over and error.phase is Phase.MAIL):
                    return error.outcome
        try:
            fresh = await bounded(Session.open(self._settings, self._context), deadline - time.monotonic())
            return await self._on(fresh, mail, deadline)
        except DialogueError as error:
            return error.outcome
        except TimeoutError:
            return NotSent("no connection within the deadline")

    async def _on(self, session: Session, mail: Mail, deadline: float) -> Outcome:
        keep = False
        try:
            outcome = await session.deliver(mail, deadline)
            keep = True
        except DialogueError as error:
            keep = not error.over and await session.reset()
            raise
        finally:
            # Also when cancelled: a connection in the middle of a mail must not take the next one.
            if keep:
                self._idle.append(session)
            else:
                session.abandon()
        return outcome

    def _take(self) -> Session | None:
        """The connection used last, so that those not needed grow idle and are let go."""
        oldest = time.monotonic() - self._settings.idle_sec
        while self._idle and self._idle[0].used_at < oldest:
            self._idle.pop(0).abandon()
        return self._idle.pop() if self._idle else None


@asynccontextmanager
async def _open(settings: SmtpSettings) -> AsyncIterator[Sender]:
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        context.load_verify_locations(cafile=settings.ca_file)
    sender = SmtpSender(settings, context)
    try:
        yield sender
    finally:
        await sender.close()


SMTP: Final = Provider(name=NAME, channel="EMAIL", settings=SmtpSettings, open=_open)
