"""One kept SMTP connection, by aiosmtplib; every phase has its limit and every end its outcome."""

import re
import ssl
import time
from typing import Final

import aiosmtplib
from aiosmtplib.protocol import normalize_message_line_endings

from shared.core.outcome import Outcome, Permanent, ProviderDown
from shared.providers.email.smtp.classify import Phase, classify, lost
from shared.providers.email.smtp.mime import Mail
from shared.providers.email.smtp.settings import SmtpSettings

_LEADING_DOT: Final = re.compile(rb"(?m)^\.")
_START_INPUT: Final = 354
_GOODBYE: Final = 421


class DialogueError(Exception):
    """The dialogue ended early: `outcome` says what that means, `over` that the connection is of no more use."""

    def __init__(self, outcome: Outcome, *, phase: Phase, over: bool) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome
        self.phase = phase
        self.over = over


class Session:
    """A connection with greeting, TLS and login behind it. One mail at a time."""

    def __init__(self, client: aiosmtplib.SMTP, command_timeout_sec: float) -> None:
        self._client = client
        self._command_timeout_sec = command_timeout_sec
        self.used_at = time.monotonic()
        self.mails = 0

    @classmethod
    async def open(cls, settings: SmtpSettings, context: ssl.SSLContext) -> "Session":
        """Connect, greet, start TLS, log in; DialogueError with the outcome otherwise."""
        client = aiosmtplib.SMTP(
            hostname=settings.host,
            port=settings.port,
            local_hostname=settings.helo_name,
            timeout=settings.connect_timeout_sec,
            use_tls=settings.security == "tls",
            start_tls=settings.security == "starttls",
            tls_context=context if settings.security != "none" else None,
            username=settings.username,
            password=None if settings.password is None else settings.password.get_secret_value(),
        )
        try:
            await client.connect()
            await client.ehlo() if client.is_ehlo_or_helo_needed else None
        except aiosmtplib.SMTPAuthenticationError as error:
            raise DialogueError(classify(Phase.AUTH, error.code, error.message), phase=Phase.AUTH, over=True) from error
        except aiosmtplib.SMTPResponseException as error:
            outcome = classify(Phase.GREETING, error.code, error.message)
            raise DialogueError(outcome, phase=Phase.GREETING, over=True) from error
        except (ssl.SSLError, aiosmtplib.SMTPNotSupported) as error:
            down = ProviderDown("TLS or login not possible: check ULAK_SMTP_SECURITY and ULAK_SMTP_CA_FILE")
            raise DialogueError(down, phase=Phase.CONNECT, over=True) from error
        except (aiosmtplib.SMTPException, OSError) as error:
            if isinstance(error.__cause__, ssl.SSLError):
                down = ProviderDown("TLS failed: check ULAK_SMTP_SECURITY and ULAK_SMTP_CA_FILE")
                raise DialogueError(down, phase=Phase.CONNECT, over=True) from error
            raise DialogueError(lost(Phase.CONNECT, _kind(error)), phase=Phase.CONNECT, over=True) from error
        return cls(client, settings.command_timeout_sec)

    async def deliver(self, mail: Mail, deadline: float) -> Outcome:
        """MAIL, RCPT, DATA, content; the outcome of the last reply, or DialogueError with the one that ended it.

        deadline: `time.monotonic()` by which the outcome is due; no command waits beyond it.
        """
        options = []
        if mail.needs_smtputf8:
            if not self._client.supports_extension("smtputf8"):
                refused = Permanent("the relay takes no non-ASCII local part (SMTPUTF8)", dead_letter=False)
                raise DialogueError(refused, phase=Phase.MAIL, over=False)
            options = [b"SMTPUTF8"]
        self.mails += 1
        encoding = "utf-8" if mail.needs_smtputf8 else "ascii"
        await self._command(Phase.MAIL, deadline, b"MAIL", b"FROM:<" + mail.sender.encode("ascii") + b">", *options)
        await self._command(Phase.RCPT, deadline, b"RCPT", b"TO:<" + mail.recipient.encode(encoding) + b">")
        await self._command(Phase.DATA, deadline, b"DATA")
        code, text = await self._content(mail.content, deadline)
        outcome = classify(Phase.END, code, text)
        if code == _GOODBYE:
            raise DialogueError(outcome, phase=Phase.END, over=True)
        self.used_at = time.monotonic()
        return outcome

    async def reset(self) -> bool:
        """Forget the mail begun (RSET); False if the connection is of no more use."""
        try:
            await self._client.rset(timeout=self._command_timeout_sec)
        except (aiosmtplib.SMTPException, OSError):
            return False
        return True

    def abandon(self) -> None:
        """Close without a word."""
        self._client.close()

    async def quit(self) -> None:
        """Say goodbye if that is still possible; close."""
        try:
            await self._client.quit(timeout=1.0)
        except (aiosmtplib.SMTPException, OSError):
            self._client.close()  # the server was quicker

    async def _command(self, phase: Phase, deadline: float, *words: bytes) -> None:
        timeout_sec = min(self._command_timeout_sec, deadline - time.monotonic())
        if timeout_sec <= 0:
            raise DialogueError(lost(phase, "deadline"), phase=phase, over=True)
        try:
            reply = await self._client.execute_command(*words, timeout=timeout_sec)
        except (aiosmtplib.SMTPException, OSError) as error:
            raise DialogueError(lost(phase, _kind(error)), phase=phase, over=True) from error
        expected = reply.code == _START_INPUT if phase is Phase.DATA else 250 <= reply.code <= 251
        if not expected:
            raise DialogueError(classify(phase, reply.code, reply.message), phase=phase, over=reply.code == _GOODBYE)

    async def _content(self, content: bytes, deadline: float) -> tuple[int, str]:
        protocol = self._client.protocol
        if protocol is None:
            raise DialogueError(lost(Phase.DATA, "disconnected"), phase=Phase.DATA, over=True)
        stuffed = _LEADING_DOT.sub(b"..", normalize_message_line_endings(content))
        try:
            # aiosmtplib's data() has one limit for the command and the content, and one error for both replies.
            protocol.write(stuffed + b".\r\n")
            reply = await protocol.read_response(timeout=max(0.001, deadline - time.monotonic()))
        except (aiosmtplib.SMTPException, OSError) as error:
            raise DialogueError(lost(Phase.END, _kind(error)), phase=Phase.END, over=True) from error
        return reply.code, reply.message


def _kind(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiosmtplib.SMTPConnectError):
        return "not reachable"
    return "disconnected"
