"""Citizens' changes by the registry's own ways, taken into the ledger: a refusal there is a refusal here."""

from collections.abc import Sequence
from typing import Final

from services.relay.iys.client import IysClient
from services.relay.iys.permission import Change
from services.relay.iys.settings import IysSettings
from services.relay.iys.store import RecordStore
from shared.core.address import InvalidAddressError, parse_email, parse_phone, target_key
from shared.core.consent import IYS_CHANNELS, Line, RecipientKind, Source, parse_iys_date
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import IYS_CHANGES

_REFERENCE_LIMIT: Final = 200

_log = get_logger(__name__)


class Pull:
    """Several relays may pull: a change is one line by its transaction id, and the cursor moves from where it was."""

    def __init__(self, store: RecordStore, client: IysClient, rings: RingSource, settings: IysSettings) -> None:
        self._store = store
        self._client = client
        self._rings = rings
        self._brand = settings.brand

    async def round(self) -> bool:
        """One page; True if there was one. Raises RegistryError."""
        before = await self._store.cursor(self._brand)
        page = await self._client.changes(before)
        if not page.changes:
            return False
        ring = self._rings.ring
        lines = [line for change in page.changes if (line := read_change(change, ring)) is not None]
        taken = await self._store.take_in(ring, self._brand, lines, before=before, after=page.after)
        if taken:
            self._report(page.changes, lines)
        return taken and page.after != before

    def _report(self, changes: Sequence[Change], lines: Sequence[Line]) -> None:
        IYS_CHANGES.labels("taken").inc(len(lines))
        passed_over = len(changes) - len(lines)
        if passed_over:
            IYS_CHANGES.labels("passed_over").inc(passed_over)
            _log.info("iys_changes_passed_over", changes=passed_over, why="voice, or no address or date that we know")


def read_change(change: Change, ring: KeyRing) -> Line | None:
    """The ledger's line of a change; None for what Ulak has no channel for, or cannot read."""
    channel = IYS_CHANNELS.get(change.type)
    if channel is None or change.status not in {"ONAY", "RET"}:
        return None
    try:
        if channel == "EMAIL":
            email = parse_email(change.recipient)
            canonical, address = email.canonical, email.text
        else:
            canonical = address = parse_phone(change.recipient)
        at = parse_iys_date(change.date)
        kind = RecipientKind(change.kind)
    except (InvalidAddressError, ValueError):
        return None
    return Line(
        id=new_id(),
        subject=target_key(ring, channel, canonical),
        channel=channel,
        granted=change.status == "ONAY",
        at=at,
        source=Source.IYS,
        address=address,
        recipient_kind=kind,
        evidence=f"İYS {change.source} {change.transaction_id}",
        reference=change.transaction_id[:_REFERENCE_LIMIT],
        recorded_by="iys",
    )
