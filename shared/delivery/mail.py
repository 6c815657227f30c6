"""From a stored request to a mail: rendered with the template of this moment, with its type's sender and its files.

Seed 000 section 9: a template that is repaired reaches the mails that wait. Nothing here is kept between attempts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from shared.content.problem import RenderError
from shared.content.render import Renderer
from shared.core.address import target_key
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.core.email import AttachmentRef, EmailRequest, Field
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.ports import Attachment, Envelope, SenderProfile
from shared.core.sealing import SealError, UnknownKeyError
from shared.core.sender import ProfileCache
from shared.core.storage import Storage
from shared.core.unsubscribe import PARAMETER, Refusal, link
from shared.delivery.file import Files, Limits
from shared.delivery.prepare import Unprepared
from shared.runtime.keyring import RingSource
from shared.wire.channel import Category

T = TypeVar("T")

CHANNEL: Final = "EMAIL"
REREAD_SEC: Final = 1.0
"""How old the catalogue may be before a mail fails by it: what was pushed or repaired a moment ago is found."""


class CatalogueSource(Protocol):
    """What a `CatalogueCache` is to us."""

    async def get(self, *, max_age_sec: float | None = None) -> Catalogue:
        """The catalogue, at most that old; UnavailableError."""


@dataclass(frozen=True, slots=True)
class Mail:
    """What all recipients of a message share. content: `subject`, `text`, perhaps `html`, plain."""

    content: Mapping[str, str] = field(repr=False)
    envelope: Envelope
    type: NotificationType


class MailMaker:
    """Makes mails, for the workers and for Model A alike. One per process, safe for concurrent use."""

    def __init__(
        self,
        catalogue: CatalogueSource,
        renderer: Renderer,
        storage: Storage,
        rings: RingSource,
        *,
        default_locale: str,
        limits: Limits,
        public_url: str | None = None,
    ) -> None:
        """public_url: where services/me is reached; None: marketing mails carry no link to unsubscribe by."""
        self._public_url = public_url
        self._catalogue = catalogue
        self._renderer = renderer
        self._storage = storage
        self._rings = rings
        self._default_locale = default_locale
        self._limits = limits
        self._profiles = ProfileCache()

    async def make(
        self, request: EmailRequest, *, message_reference: str, user_locale: str | None = None
    ) -> Mail | Unprepared:
        """The mail as it would go out now, with one Envelope for all its recipients.

        message_reference makes the Message-ID: the same at every attempt. user_locale speaks where the request names
        no locale; whoever stores a request for later puts it into the request instead. Files are not read yet.

        Unprepared: UNKNOWN_TYPE, NO_TEMPLATE, RENDER, CONFIG (the sender's DKIM key is lost) are FAILED for good;
        PENDING where the DKIM key is under a key that our ring does not have yet. Raises UnavailableError when the
        catalogue must be read and cannot be.
        """
        return await self._looked_up(lambda catalogue: self._made(catalogue, request, message_reference, user_locale))

    async def sender(self, type_name: str) -> SenderProfile | Unprepared | None:
        """Who the mails of a type are from, None for the installation's sender; errors as of `make`."""
        return await self._looked_up(lambda catalogue: self._sender(catalogue, type_name))

    def unsubscribe_url(self, address_key: bytes, type_name: str) -> str | None:
        """Where the owner of the address takes their consent back (RFC 8058); None without a public address."""
        if self._public_url is None:
            return None
        return link(self._public_url, self._rings.ring, Refusal(address_key, CHANNEL, type_name))

    async def _looked_up(self, look_up: Callable[[Catalogue], T | Unprepared]) -> T | Unprepared:
        """By the catalogue at hand, and by a fresh one before it is taken for certain that something is amiss."""
        catalogue = await self._catalogue.get()
        found = look_up(catalogue)
        if isinstance(found, Unprepared):
            fresh = await self._catalogue.get(max_age_sec=REREAD_SEC)
            if fresh is not catalogue:
                found = look_up(fresh)
        return found

    def _made(
        self, catalogue: Catalogue, request: EmailRequest, message_reference: str, user_locale: str | None
    ) -> Mail | Unprepared:
        found = catalogue.type(request.type_name)
        if found is None:
            return _failed(Reason.UNKNOWN_TYPE, f"no notification type {request.type_name}: `ulak templates push` it")
        template = catalogue.template(request.template, CHANNEL, request.locale or user_locale, self._default_locale)
        if template is None:
            return _failed(Reason.NO_TEMPLATE, f"no {CHANNEL} template of {request.template}: `ulak templates push` it")
        unsubscribe_url = self._own_link(found, request)
        content = self._rendered(template, request, unsubscribe_url)
        if isinstance(content, Unprepared):
            return content
        sender = self._sender(catalogue, found.name)
        if isinstance(sender, Unprepared):
            return sender
        envelope = Envelope(
            message_reference=message_reference,
            to=request.headed(Field.TO),
            cc=request.headed(Field.CC),
            sender=sender,
            attachments=self._attachments(request.attachments),
            unsubscribe_url=unsubscribe_url,
        )
        return Mail(content, envelope, found)

    def _own_link(self, found: NotificationType, request: EmailRequest) -> str | None:
        """Of a marketing mail to one person: a mail that several read cannot hold one's own way out for each."""
        if found.category is not Category.MARKETING or len(request.recipients) != 1:
            return None
        address = request.recipients[0].mailbox.address
        return self.unsubscribe_url(target_key(self._rings.ring, CHANNEL, address.canonical), found.name)

    def _rendered(
        self, template: Template, request: EmailRequest, unsubscribe_url: str | None
    ) -> dict[str, str] | Unprepared:
        own = {} if unsubscribe_url is None else {PARAMETER: unsubscribe_url}
        try:
            return self._renderer.render(template, {**request.parameters, **own})
        except RenderError as error:
            return _failed(Reason.RENDER, f"{CHANNEL} {template.locale} v{template.version}: {error}")

    def _sender(self, catalogue: Catalogue, type_name: str) -> SenderProfile | Unprepared | None:
        stored = catalogue.sender(type_name)
        if stored is None:
            return None
        try:
            try:
                return self._profiles.open(stored, self._rings.ring)
            except UnknownKeyError:
                if not self._rings.refresh():
                    raise
                return self._profiles.open(stored, self._rings.ring)
        except UnknownKeyError as error:
            return Unprepared(DeliveryStatus.PENDING, Reason.UNSEALABLE, f"sender {stored.name}: {error}")
        except SealError as error:
            return _failed(Reason.CONFIG, f"sender {stored.name}: {error}; push it again with its DKIM key")

    def _attachments(self, references: Sequence[AttachmentRef]) -> tuple[Attachment, ...]:
        files = Files(self._storage, self._limits)
        return tuple(
            Attachment(entry.filename, entry.content_type, files.reader(entry.storage_ref), entry.content_id)
            for entry in references
        )


def _failed(reason: Reason, detail: str) -> Unprepared:
    return Unprepared(DeliveryStatus.FAILED, reason, detail)
