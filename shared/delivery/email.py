"""Opening rows of the e-mail lanes: requests become mails now, what the router wrote gets its type's sender."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from shared.core.email import InvalidEmailError, request_from_json
from shared.core.identifier import NOTIFICATION, public_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.ports import Envelope, Prepared, SenderProfile
from shared.core.sealing import Purpose
from shared.delivery.mail import Mail, MailMaker
from shared.delivery.opening import refreshing
from shared.delivery.prepare import Unprepared, content_row, open_address, opened, prepare
from shared.delivery.row import DeliveryRow
from shared.delivery.siblings import messages
from shared.runtime.keyring import RingSource

_Sender = SenderProfile | Unprepared | None


class RequestSource(Protocol):
    """What a `DeliveryStore` is to us."""

    async def requests(self, ids: Collection[UUID]) -> Mapping[UUID, bytes]:
        """Sealed e-mail requests by notification; one that was cleared is not among them."""


class EmailPreparation:
    """The `Preparation` of one e-mail lane. A mail is made once for all recipients that this attempt goes to."""

    def __init__(self, requests: RequestSource, maker: MailMaker, rings: RingSource) -> None:
        self._requests = requests
        self._maker = maker
        self._rings = rings

    async def __call__(self, rows: Sequence[DeliveryRow]) -> Sequence[Prepared | Unprepared]:
        """One answer each. Raises UnavailableError when the catalogue must be read and cannot be."""
        found = messages(rows)
        sealed = await self._requests.requests(found.keys()) if found else {}
        mails = {
            notification_id: await self._mail(siblings[0], sealed.get(notification_id))
            for notification_id, siblings in found.items()
        }
        senders: dict[str, _Sender] = {}
        prepared: list[Prepared | Unprepared] = []
        for row in rows:
            mail = mails.get(row.key.notification_id)
            prepared.append(await self._rendered(row, senders) if mail is None else self._recipient(row, mail))
        return prepared

    async def _mail(self, row: DeliveryRow, sealed: bytes | None) -> Mail | Unprepared:
        if sealed is None:
            return Unprepared(DeliveryStatus.FAILED, Reason.RENDER, "no content is stored")
        plain = refreshing(self._rings, lambda ring: opened(ring, Purpose.EMAIL, content_row(row), sealed))
        if isinstance(plain, Unprepared):
            return plain
        try:
            request = request_from_json(plain)
        except InvalidEmailError as error:
            return Unprepared(DeliveryStatus.FAILED, Reason.UNSEALABLE, str(error))
        return await self._maker.make(request, message_reference=public_id(NOTIFICATION, row.key.notification_id))

    def _recipient(self, row: DeliveryRow, mail: Mail | Unprepared) -> Prepared | Unprepared:
        if isinstance(mail, Unprepared):
            return mail
        address = refreshing(self._rings, lambda ring: open_address(row, ring))
        if isinstance(address, Unprepared):
            return address
        return Prepared(
            key=row.key,
            attempt=row.attempt + 1,
            address=address,
            content=mail.content,
            message_class=row.message_class,
            expires_at=row.expires_at,
            envelope=mail.envelope,
        )

    async def _rendered(self, row: DeliveryRow, senders: dict[str, _Sender]) -> Prepared | Unprepared:
        """One that the router rendered."""
        prepared = refreshing(self._rings, lambda ring: prepare(row, ring))
        if isinstance(prepared, Unprepared) or row.type_name is None:
            return prepared
        if row.type_name not in senders:
            senders[row.type_name] = await self._maker.sender(row.type_name)
        sender = senders[row.type_name]
        if isinstance(sender, Unprepared):
            return sender
        unsubscribe_url = self._maker.unsubscribe_url(row.key.target_key, row.type_name) if row.marketing else None
        if sender is None and unsubscribe_url is None:
            return prepared
        envelope = Envelope(row.key.reference, sender=sender, unsubscribe_url=unsubscribe_url)
        return replace(prepared, envelope=envelope)
