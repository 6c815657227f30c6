"""From nothing to a connection that takes mail: connecting, greeting, TLS, login."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiosmtplib

from shared.core.outcome import Outcome, ProviderDown
from shared.providers.email.smtp.classify import Phase, classify, lost
from shared.providers.email.smtp.settings import SmtpSettings

_UNKNOWN_COMMAND: Final = frozenset({500, 502, 504})


class DialogueError(Exception):
    """The dialogue ended early: `outcome` says what that means, `over` that the connection is of no more use."""

    def __init__(self, outcome: Outcome, *, phase: Phase, over: bool) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome
        self.phase = phase
        self.over = over


async def connect(settings: SmtpSettings, context: ssl.SSLContext) -> aiosmtplib.SMTP:
    """A greeted connection, with TLS and login as the settings say; DialogueError with the outcome otherwise.

    Opportunistic TLS that fails is done without, over a second connection (RFC 7435): a relay whose TLS is broken still
    takes mail. Each step has its own time limit.
    """
    try:
        return await _connect(settings, context, start_tls=settings.security in {"starttls", "opportunistic"})
    except DialogueError as error:
        if error.phase is not Phase.TLS or settings.security != "opportunistic":
            raise
        return await _connect(settings, context, start_tls=False)


async def _connect(settings: SmtpSettings, context: ssl.SSLContext, *, start_tls: bool) -> aiosmtplib.SMTP:
    client = aiosmtplib.SMTP(
        hostname=settings.host,
        port=settings.port,
        local_hostname=settings.helo_name,
        timeout=settings.connect_timeout_sec,
        use_tls=settings.security == "tls",
        start_tls=False,
        tls_context=context,
    )
    try:
        with _told_as(Phase.CONNECT):
            await client.connect()
        with _told_as(Phase.GREETING):
            await _greet(client)
        if start_tls:
            await _start_tls(client, required=settings.security == "starttls")
        if settings.username is not None and settings.password is not None:
            await _log_in(client, settings.username, settings.password.get_secret_value())
    except BaseException:
        client.close()  # also when cancelled
        raise
    return client


async def _greet(client: aiosmtplib.SMTP) -> None:
    """EHLO, and HELO for a relay that does not know it (RFC 5321 section 3.2)."""
    try:
        await client.ehlo()
    except aiosmtplib.SMTPHeloError as error:
        if error.code not in _UNKNOWN_COMMAND:
            raise
        await client.helo()


async def _start_tls(client: aiosmtplib.SMTP, *, required: bool) -> None:
    if not client.supports_extension("starttls"):
        if required:
            down = ProviderDown("the relay offers no STARTTLS: check ULAK_SMTP_PORT, or change ULAK_SMTP_SECURITY")
            raise DialogueError(down, phase=Phase.TLS, over=True)
        return
    with _told_as(Phase.TLS):
        await client.starttls()
        await client.ehlo()


async def _log_in(client: aiosmtplib.SMTP, username: str, password: str) -> None:
    if not client.supported_auth_methods:
        down = ProviderDown("the relay offers no login that we know: check ULAK_SMTP_PORT, or unset ULAK_SMTP_USERNAME")
        raise DialogueError(down, phase=Phase.AUTH, over=True)
    with _told_as(Phase.AUTH):
        await client.login(username, password)


@contextmanager
def _told_as(phase: Phase) -> Iterator[None]:
    """The library's errors as ours."""
    try:
        yield
    except aiosmtplib.SMTPConnectResponseError as error:
        outcome = classify(Phase.GREETING, error.code, error.message)
        raise DialogueError(outcome, phase=Phase.GREETING, over=True) from error
    except aiosmtplib.SMTPResponseException as error:
        raise DialogueError(classify(phase, error.code, error.message), phase=phase, over=True) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
            down = ProviderDown("TLS failed: check ULAK_SMTP_SECURITY and ULAK_SMTP_CA_FILE")
            raise DialogueError(down, phase=Phase.TLS, over=True) from error
        raise DialogueError(lost(phase, what_happened(error)), phase=phase, over=True) from error


def what_happened(error: Exception) -> str:
    """An error of aiosmtplib that is no reply, in a word or two that hold nothing of the server's."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiosmtplib.SMTPConnectError):
        return "not reachable"
    return "disconnected"
