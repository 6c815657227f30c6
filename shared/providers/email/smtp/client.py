"""A relay over kept connections."""

import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from shared.core.outcome import NotSent, Outcome, Permanent
from shared.core.ports import Prepared, Sender, SendWindow
from shared.providers.email.composer import Composer, Letter, grouped
from shared.providers.email.header import needs_smtputf8
from shared.providers.email.smtp.handshake import DialogueError
from shared.providers.email.smtp.pool import Connections
from shared.providers.email.smtp.session import Answer, Session
from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.registry import Provider
from shared.providers.slots import Slots

NAME: Final = "smtp"
_MAILS_A_CONNECTION: Final = 2
"""What a connection to a relay with PIPELINING carries: the end of one mail and the beginning of the next."""


class SmtpSender:
    """`Sender` for one relay, over kept connections.

    With a relay that takes commands ahead of its replies, and gives these soon, each connection carries two mails: one
    waits for its last reply while the envelope of the next is on its way. As many again may be claimed: with the next
    mail at hand, its envelope and the content before it are one write.
    """

    provider: Final = NAME

    def __init__(
        self,
        settings: SmtpSettings,
        context: ssl.SSLContext,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._composer = Composer(settings.profile, clock)
        self._slots = Slots(settings.concurrency)
        self._few, self._many = settings.concurrency, _MAILS_A_CONNECTION * settings.concurrency
        self._connections = Connections(settings, context, self._deepens)
        self.concurrency: Final = 2 * self._many

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_groups(grouped(batch), self._send_mail, window)

    async def close(self) -> None:
        """Say goodbye on every kept connection."""
        await self._connections.close()
        self._composer.close()

    def _deepens(self, deep: bool) -> None:
        self._slots.resize(self._many if deep else self._few)

    async def _send_mail(self, messages: Sequence[Prepared], deadline_sec: float) -> Sequence[Outcome]:
        """One mail to its recipients; an outcome each."""
        started = time.monotonic()
        letter = await self._composer.letter(messages, started, deadline_sec)
        if not isinstance(letter, Letter):
            return [letter] * len(messages)
        return await self._deliver(letter, started + deadline_sec)

    async def _deliver(self, letter: Letter, deadline: float) -> Sequence[Outcome]:
        """Over a kept connection, and over others while those go stale before they are of use (E4).

        Each of these has carried another mail before, so that a relay that takes none is not asked without end.
        """
        while True:
            try:
                session = await self._connections.take(deadline)
            except DialogueError as error:
                return [error.outcome] * len(letter.messages)
            except TimeoutError:
                return [NotSent("no connection within the deadline")] * len(letter.messages)
            try:
                answer = await self._on(session, letter, deadline)
            finally:
                self._connections.back(session)
            if not answer.stale or time.monotonic() >= deadline:
                return answer.outcomes

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
