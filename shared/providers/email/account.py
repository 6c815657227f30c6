"""An account at a vendor that takes finished mails over HTTP, each with one answer for all of its recipients."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from shared.core.outcome import NotSent, Outcome, Permanent, ProviderDown
from shared.core.ports import Prepared, Reply, SendWindow, Transport, TransportError
from shared.providers.email.composer import Composer, Letter, grouped
from shared.providers.email.settings import EmailSettings
from shared.providers.slots import Slots
from shared.providers.unanswered import unanswered


class CredentialError(Exception):
    """There is nothing to authenticate with at the moment; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as `Transport.post` takes it."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class MimeApi(Protocol):
    """What a vendor's folder brings.

    max_bytes: of a mail; max_recipients: of a call. A message with more of them goes out in several calls.
    """

    @property
    def name(self) -> str: ...

    @property
    def max_bytes(self) -> int: ...

    @property
    def max_recipients(self) -> int: ...

    async def call(self, letter: Letter) -> Call:
        """The request that hands over a mail; CredentialError."""

    def classify(self, reply: Reply, now: datetime) -> Outcome:
        """One reply as one outcome. Pure."""


class MimeAccount:
    """`Sender` over such a vendor. Closed by whoever opened it.

    Mails are not signed here: the vendor changes what a signature would cover, and signs for the domain itself. A
    recipient whose address only servers with SMTPUTF8 understand is refused; the others get the mail (E2).
    """

    def __init__(
        self,
        api: MimeApi,
        settings: EmailSettings,
        transport: Transport,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._transport = transport
        self._clock = clock
        self._composer = Composer(settings.profile, clock, signed=False)
        self._slots = Slots(settings.concurrency)
        self.provider: Final = api.name
        self.concurrency: Final = settings.concurrency

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_groups(grouped(batch, self._api.max_recipients), self._send_mail, window)

    def close(self) -> None:
        self._composer.close()

    async def _send_mail(self, messages: Sequence[Prepared], deadline_sec: float) -> Sequence[Outcome]:
        started = time.monotonic()
        able = [index for index, message in enumerate(messages) if has_ascii_local_part(message.address)]
        outcomes: list[Outcome] = [no_smtputf8(self.provider)] * len(messages)
        if able:
            outcome = await self._deliver([messages[index] for index in able], started, deadline_sec)
            for index in able:
                outcomes[index] = outcome
        return outcomes

    async def _deliver(self, messages: Sequence[Prepared], started: float, deadline_sec: float) -> Outcome:
        letter = await self._composer.letter(messages, started, deadline_sec, smtputf8=False)
        if not isinstance(letter, Letter):
            return letter
        if len(letter.mail.content) > self._api.max_bytes:
            return too_large(self.provider, len(letter.mail.content), self._api.max_bytes)
        try:
            call = await self._api.call(letter)
            left_sec = started + deadline_sec - time.monotonic()
            if left_sec <= 0:
                return NotSent("no time left after composing")
            reply = await self._transport.post(call.url, call.headers, call.body, timeout_sec=left_sec)
        except CredentialError as error:
            return ProviderDown(str(error))
        except TransportError as error:
            return unanswered(error)
        return self._api.classify(reply, self._clock())


def has_ascii_local_part(address: str) -> bool:
    """Whether an address can do without SMTPUTF8; a domain with other letters can, as A-label (RFC 5890)."""
    return address.rpartition("@")[0].isascii()


def no_smtputf8(vendor: str) -> Permanent:
    """What a recipient is that a vendor without SMTPUTF8 cannot be told of."""
    return Permanent(f"{vendor} takes no address with other than ASCII letters before the @", dead_letter=False)


def too_large(vendor: str, size: int, limit: int) -> Permanent:
    """What a mail is that a vendor would refuse for its size; known before sending, so nothing is spent on it."""
    return Permanent(f"the mail has {size} bytes and {vendor} takes {limit}: send a link instead")
