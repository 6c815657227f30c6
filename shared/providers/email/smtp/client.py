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
from shared.providers.email.composer import Composer, Letter, grouped
from shared.providers.email.header import needs_smtputf8
from shared.providers.email.smtp.handshake import DialogueError
from shared.providers.email.smtp.session import Answer, Session
from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.registry import Provider
from shared.providers.slots import Slots

NAME: Final = "smtp"
_MAILS_A_CONNECTION: Final = 2
"""What a connection to a relay with PIPELINING carries: the end of one mail and the beginning of the next."""


class SmtpSender:
    """`Sender` for one relay. Connections are opened as they are needed, at most `settings.concurrency`, and kept.

    With a relay that takes commands ahead of its replies, each connection carries two mails: one waits for its last
    reply while the envelope of the next is on its way.
    """

    provider: Final = NAME

    def __init__(
        self,
        settings: SmtpSettings,
        context: ssl.SSLContext,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._composer = Composer(settings.profile, clock)
        self._context = context
        self._sessions: list[Session] = []
        self._opening = 0
        self._doors = asyncio.Semaphore(settings.concurrency)
        self._slots = Slots(settings.concurrency)
        self.concurrency: Final = _MAILS_A_CONNECTION * settings.concurrency

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_groups(grouped(batch), self._send_mail, window)

    async def close(self) -> None:
        """Say goodbye on every kept connection."""
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*(session.quit() for session in sessions))
        self._composer.close()

    async def _send_mail(self, messages: Sequence[Prepared], deadline_sec: float) -> Sequence[Outcome]:
        """One mail to its recipients; an outcome each."""
        started = time.monotonic()
        letter = await self._composer.letter(messages, started, deadline_sec)
        if not isinstance(letter, Letter):
            return [letter] * len(messages)
        return await self._deliver(letter, started + deadline_sec)

    async def _deliver(self, letter: Letter, deadline: float) -> Sequence[Outcome]:
        """On a kept connection, and on a fresh one if the kept one had gone stale before it was of use (E4)."""
        try:
            session, fresh = await bounded(self._session(), deadline - time.monotonic())
            answer = await self._on(session, letter, deadline)
            if answer.stale and not fresh:
                session = await bounded(self._opened(), deadline - time.monotonic())
                answer = await self._on(session, letter, deadline)
        except DialogueError as error:
            return [error.outcome] * len(letter.messages)
        except TimeoutError:
            return [NotSent("no connection within the deadline")] * len(letter.messages)
        return answer.outcomes

    async def _session(self) -> tuple[Session, bool]:
        """A connection to use now, and whether it was opened for that."""
        session = self._kept()
        if session is not None:
            return session, False
        async with self._doors:
            session = self._kept()  # while this one waited for a door, another may have come in
            return (session, False) if session is not None else (await self._opened(), True)

    def _kept(self) -> Session | None:
        """The connection used last of those that carry nothing, so that those not needed grow idle and are let go.

        Once there are as many as there may be, the one that carries the least; None: open another.
        """
        oldest = time.monotonic() - self._settings.idle_sec
        free: Session | None = None
        for session in self._sessions.copy():
            if session.closing or (not session.mails and session.used_at < oldest):
                self._sessions.remove(session)
                session.abandon()
            elif not session.mails and (free is None or free.used_at <= session.used_at):
                free = session
        if free is None and self._sessions and len(self._sessions) + self._opening >= self._settings.concurrency:
            return min(self._sessions, key=lambda session: session.mails)
        return free

    async def _opened(self) -> Session:
        self._opening += 1
        try:
            session = await Session.open(self._settings, self._context)
        finally:
            self._opening -= 1
        self._sessions.append(session)
        if session.pipelining:
            self._slots.widen(self.concurrency)
        return session

    async def _on(self, session: Session, letter: Letter, deadline: float) -> Answer:
        if letter.mail.needs_smtputf8 and not session.smtputf8:
            return await self._without_smtputf8(session, letter, deadline)
        return await session.deliver(letter.mail, deadline)

    async def _without_smtputf8(self, session: Session, letter: Letter, deadline: float) -> Answer:
        """The mail for those whose address the relay can read; for the others it is over (E2)."""
        able = [index for index, address in enumerate(letter.mail.recipients) if not needs_smtputf8(address)]
        refused = Permanent("the relay takes no non-ASCII local part (SMTPUTF8)", dead_letter=False)
        outcomes: list[Outcome] = [refused] * len(letter.messages)
        if not able:
            return Answer(outcomes)
        mail = await self._composer.mail([letter.messages[index] for index in able], letter.files, smtputf8=False)
        answer = await session.deliver(mail, deadline)
        for index, outcome in zip(able, answer.outcomes, strict=True):
            outcomes[index] = outcome
        return Answer(outcomes, stale=answer.stale)


@asynccontextmanager
async def _open(settings: SmtpSettings) -> AsyncIterator[Sender]:
    sender = SmtpSender(settings, _context(settings))
    try:
        yield sender
    finally:
        await sender.close()


def _context(settings: SmtpSettings) -> ssl.SSLContext:
    """Opportunistic TLS asks for no certificate: whoever could forge one could take the offer of TLS away as well."""
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        context.load_verify_locations(cafile=settings.ca_file)
    if settings.security == "opportunistic":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


SMTP: Final = Provider(name=NAME, channel="EMAIL", settings=SmtpSettings, open=_open)
