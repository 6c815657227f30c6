"""One kept SMTP connection: mail after mail, in as few round trips as the relay allows."""

import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import aiosmtplib

from shared.core.outcome import Outcome, Permanent
from shared.providers.email.mime import Mail
from shared.providers.email.smtp.classify import Phase, classify, lost
from shared.providers.email.smtp.dialogue import Asked, Dialogue, Reply
from shared.providers.email.smtp.handshake import connect
from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.email.smtp.transaction import GOODBYE, Verdict, envelope, verdict

PROMPT_SEC: Final = 0.5
"""A relay that takes longer for a content gains nothing by another mail behind it, which would only wait."""
DATA_END_SEC: Final = 600.0
"""The longest wait for the reply to the final dot (RFC 5321 section 4.5.3.2.6); a lane's deadline may come before."""

_GOODBYE_SEC: Final = 1.0


class Answer(NamedTuple):
    """What became of one mail: an outcome per recipient, in order.

    stale: the connection, which had carried other mail, ended before the relay had this one's content, so that the mail
    may go over another one at once.
    """

    outcomes: Sequence[Outcome]
    stale: bool = False


class Session:
    """A connection with greeting, TLS and login behind it.

    With a relay that offers PIPELINING (RFC 2920), MAIL, RCPT and DATA are one write together with the content of the
    mail before, which still waits for its last reply: a mail costs one round trip. Else every command waits for its
    reply, and every mail for the one before.
    """

    def __init__(self, client: aiosmtplib.SMTP, command_timeout_sec: float) -> None:
        """Takes the connection over from client, which is connected."""
        assert client.transport is not None
        self._dialogue = Dialogue(client.transport)
        self._command_timeout_sec = command_timeout_sec
        self._carried = False
        self.mails = 0
        """How many its pool has given it."""
        self.moved_at = time.monotonic()
        """When it began or ended its last mail."""
        self.prompt = False
        """Whether it answered the last content soon."""
        self.pipelining: Final = client.supports_extension("pipelining")
        self.smtputf8: Final = client.supports_extension("smtputf8")
        self._announces_size = client.supports_extension("size")
        size = client.esmtp_extensions.get("size", "")
        self.size_limit: Final = int(size) if size.isascii() and size.isdigit() else 0
        """The largest mail it takes, in bytes; 0: it does not say (RFC 1870 section 3)."""

    @classmethod
    async def open(cls, settings: SmtpSettings, context: ssl.SSLContext) -> "Session":
        """As of `connect`."""
        return cls(await connect(settings, context), settings.command_timeout_sec)

    @property
    def closing(self) -> bool:
        """Whether it takes no more mail: given up here, or ended by the server, as it may after a while (E4)."""
        return self._dialogue.closing

    def on_closing(self, then: Callable[[], None]) -> None:
        """Call `then` when that begins."""
        self._dialogue.on_closing = then

    async def deliver(self, mail: Mail, deadline: float) -> Answer:
        """One transaction: MAIL, RCPT for each recipient in order, DATA and the content once.

        Who is refused at RCPT has that reply as outcome and stops nobody else; all others share what MAIL, DATA or the
        end was answered. A mail that nobody may have is not sent. deadline: `time.monotonic()` by which the outcomes
        are due; no command waits beyond it. What gets out of step ends the connection, but not before the mail ahead
        has its last reply; the one behind, of which nothing was taken, is stale.
        """
        recipients = len(mail.recipients)
        if 0 < self.size_limit < len(mail.content):
            return Answer([too_large(len(mail.content), self.size_limit)] * recipients)
        carried, self._carried = self._carried, True
        found = await self._envelope(mail, deadline)
        if found.rest is not None:
            await self._withdraw(found, deadline)
            return Answer(found.outcomes(recipients, found.rest), stale=found.stale and carried)
        if self.closing:  # the mail ahead was answered 421: this one's content stays here
            return Answer(found.outcomes(recipients, lost(Phase.DATA, "disconnected")), stale=carried)
        end = self._asked(dotted(mail.content), deadline, within_sec=DATA_END_SEC)
        self._dialogue.ask(end, more=self.pipelining)
        written_at = time.monotonic()
        if self.pipelining:
            self._dialogue.end_turn()
        replies = await end.answered()
        self.prompt = time.monotonic() - written_at < PROMPT_SEC
        if not self.pipelining:
            self._dialogue.end_turn()
        if not replies:
            return Answer(found.outcomes(recipients, lost(Phase.END, end.why)))
        if replies[0].code == GOODBYE:
            self.abandon()
        return Answer(found.outcomes(recipients, classify(Phase.END, replies[0].code, replies[0].text)))

    async def _envelope(self, mail: Mail, deadline: float) -> Verdict:
        """What is answered up to the go-ahead for the content, or to where the mail ends."""
        commands = envelope(mail, announces_size=self._announces_size)
        if self.pipelining:
            asked = self._asked(b"".join(commands), deadline, replies=len(commands))
            self._dialogue.ask_in_turn(asked)
            return verdict(len(mail.recipients), await asked.answered(), asked.why)
        replies: list[Reply] = []
        found = Verdict({})
        for place, command in enumerate(commands):
            asked = self._asked(command, deadline)
            if place:
                self._dialogue.ask(asked)
            else:
                self._dialogue.ask_in_turn(asked)
            replies += await asked.answered()
            found = verdict(len(mail.recipients), replies, asked.why)
            if found.rest is not None:
                break
        return found

    async def _withdraw(self, found: Verdict, deadline: float) -> None:
        """Leave the connection ready for the next mail, or leave it."""
        if found.over:
            self.abandon()
            return
        # A relay that wants content for nobody gets none (RFC 2920 section 3.1); another is told to forget the mail.
        asked = self._asked(b".\r\n" if found.wants_content else b"RSET\r\n", deadline)
        self._dialogue.ask(asked)
        replies = await asked.answered()
        if replies and (found.wants_content or 200 <= replies[0].code < 300):
            self._dialogue.end_turn()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Take no more mail; close without a word, once the mail that waits for its last reply has it."""
        self._dialogue.leave()

    async def quit(self) -> None:
        """Say goodbye if that is still possible; close."""
        asked = self._asked(b"QUIT\r\n", time.monotonic() + _GOODBYE_SEC)
        self._dialogue.ask(asked)
        await asked.answered()
        self.abandon()

    def _asked(self, commands: bytes, deadline: float, *, replies: int = 1, within_sec: float | None = None) -> Asked:
        limit_sec = self._command_timeout_sec if within_sec is None else within_sec
        return Asked(self._dialogue, commands, replies, within_sec=limit_sec, deadline=deadline)


def too_large(size: int, limit: int) -> Permanent:
    """What a mail is that the relay's EHLO excludes (RFC 1870 section 6.1: not even begun)."""
    return Permanent(f"552 5.3.4: the mail has {size} bytes and the relay takes {limit}: send a link instead")


def dotted(content: bytes) -> bytes:
    """Content as DATA takes it, with its end (RFC 5321 section 4.5.2)."""
    doubled = content.replace(b"\r\n.", b"\r\n..")
    return (b"." if doubled.startswith(b".") else b"") + doubled + b".\r\n"
