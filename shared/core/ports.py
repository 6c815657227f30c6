"""What the delivery pipeline needs of a provider, and a provider of an HTTP client. Contracts only."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from shared.core.address import Mailbox
from shared.core.outcome import Outcome
from shared.core.reference import DeliveryKey
from shared.wire.channel import MessageClass


@dataclass(frozen=True, slots=True)
class DkimKey:
    """Who signs a mail (RFC 6376): d=, s=, and the private key as PEM."""

    domain: str
    selector: str
    private_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SenderProfile:
    """Who a mail is from. return_path is the envelope's sender (None: from_address); '' as from_name shows none."""

    from_address: str
    from_name: str = ""
    reply_to: str | None = None
    return_path: str | None = None
    dkim: DkimKey | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a mail, read when it is sent. content_id: shown inside the HTML (`cid:`), else beside it.

    read(timeout_sec) gives the bytes; raises `shared.core.storage.StorageError`.
    """

    filename: str = field(repr=False)
    content_type: str
    read: Callable[[float], Awaitable[bytes]] = field(repr=False)
    content_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """What the recipients of one mail share; compared by identity.

    Deliveries of one claim that have the same Envelope stand together in it, go out in one transaction, and have an
    outcome each. message_reference makes the Message-ID: the same for every recipient and attempt. to and cc are what
    every reader is shown, whoever this attempt still goes to; empty: the delivery's own address alone.
    unsubscribe_url: the one-click link of a marketing mail (RFC 8058), which is one recipient's own.
    """

    message_reference: str
    to: tuple[Mailbox, ...] = field(default=(), repr=False)
    cc: tuple[Mailbox, ...] = field(default=(), repr=False)
    sender: SenderProfile | None = None
    attachments: tuple[Attachment, ...] = ()
    unsubscribe_url: str | None = field(default=None, repr=False)


@dataclass(slots=True)  # not frozen, though nobody changes it: as DeliveryRow, one is made for every message
class Prepared:
    """One delivery, opened and ready to be handed over.

    attempt is the number of this attempt, 1 for the first. content has the channel's fields (`subject`, `text`, ...),
    plain. envelope: for e-mail, what it shares with others or has beyond its content; None is the installation's sender
    and this address alone. platform and app_id belong to push: IOS, ANDROID, WEB, and the app the token is of ('' is
    the default one). marketing: it takes a consent, so that providers who check consents too are told.
    repr shows neither address nor content.
    """

    key: DeliveryKey
    attempt: int
    address: str = field(repr=False)
    content: Mapping[str, str] = field(repr=False)
    message_class: MessageClass
    expires_at: datetime
    platform: str | None = None
    app_id: str = ""
    collapse_key: str | None = None
    campaign_id: UUID | None = None
    marketing: bool = False
    envelope: Envelope | None = None


@dataclass(frozen=True, slots=True)
class SendWindow:
    """How long one send may take, and whether another may still begin.

    deadline_sec bounds each send from its start to its outcome. may_start is asked right before each one: False when
    what is left of the lease is shorter than the deadline, or the process is stopping.
    """

    deadline_sec: float
    may_start: Callable[[], bool] = field(default=lambda: True)


class Sender(Protocol):
    """One provider account, ready to send. Safe for concurrent use on one event loop."""

    @property
    def provider(self) -> str:
        """The registry's name of the provider."""

    @property
    def concurrency(self) -> int:
        """How many messages it is handed at once, so the largest claim: as many as can be on the wire, and no more than
        as many again, so that the next is there when one ends.
        """

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        """Hand over each message once; one outcome each, in the batch's order, within the deadline.

        Neighbours that share an Envelope are one message with several recipients.

        Never raises for what a provider or network does. What did not start is NotSent; what was written and not
        answered in time is Ambiguous. Nothing is sent again behind the caller's back, except where the protocol says
        that the provider did not process the request.
        """


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply, whatever its status. headers have lower-case names, the last one of a name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TransportError(Exception):
    """Base of what keeps a reply away. Messages hold no URL and no header: device tokens travel in them.

    TransportError
    +-- UnsentError           the request was certainly not written: refused, not resolved, no connection in time
    |   +-- UntrustedError    TLS failed: nothing wrong with the message, everything with the set-up
    +-- ReplyLostError        it may have been processed: connection lost, deadline passed, reply cut short
    """


class UnsentError(TransportError):
    pass


class UntrustedError(UnsentError):
    pass


class ReplyLostError(TransportError):
    pass


class Transport(Protocol):
    """The one narrow way to HTTP providers. No redirects, no proxy, no retries of its own."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, timeout_sec: float) -> Reply:
        """POST and return the reply; timeout_sec bounds all of it. Raises a TransportError.

        A request on a stream that HTTP/2 says was not processed (RFC 9113 section 8.7: REFUSED_STREAM, or above
        GOAWAY's last stream) may be sent again within the call.
        """
