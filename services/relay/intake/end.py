"""What the row of a message says once all its deliveries are over. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.relay.email.row import REFUSED, SENT
from shared.core.lifecycle import DeliveryStatus, Reason

_ERROR_LIMIT: Final = 256
_REACHED: Final = frozenset({DeliveryStatus.SENT, DeliveryStatus.DELIVERED})


@dataclass(frozen=True, slots=True)
class Ended:
    """One settled delivery of the ledger. detail is for operators and holds nothing personal."""

    target_key: bytes
    status: DeliveryStatus
    reason: Reason | None
    attempt: int
    provider: str | None
    provider_message_id: str | None
    detail: str | None
    at: datetime

    @property
    def reached(self) -> bool:
        return self.status in _REACHED

    @property
    def why(self) -> str:
        """The reason's name; what has none (it cannot be) says its status."""
        return self.reason or self.status.lower()

    @property
    def told(self) -> str:
        """As `email_messages.outcomes` has it, in Model A's words."""
        if self.reached:
            return SENT
        return f"{REFUSED} {self.why}: {self.detail}" if self.detail else f"{REFUSED} {self.why}"


@dataclass(frozen=True, slots=True)
class RowEnd:
    """SENT if everybody has it; else FAILED, with the first one's reason: SKIPPED and UNKNOWN are failures to whoever
    asked for the mail, and the reason says which kind. provider and its id are those of the first one who has it.
    """

    status: str
    reason: str | None
    error: str | None
    outcomes: Mapping[str, str]
    attempts: int
    provider: str | None
    provider_message_id: str | None
    sent_at: datetime | None


def row_end(deliveries: Sequence[Ended], positions: Mapping[bytes, int]) -> RowEnd:
    """The end of a message. positions: of its recipients by target key; one that is not in it has no outcome told.

    deliveries: all of the message, at least one, each of them settled.
    """
    ordered = sorted(deliveries, key=lambda each: (positions.get(each.target_key, len(positions)), each.target_key))
    noes = [each for each in ordered if not each.reached]
    shown = next((each for each in ordered if each.reached), ordered[0])
    return RowEnd(
        status=REFUSED if noes else SENT,
        reason=noes[0].why if noes else None,
        error=_error(noes, len(ordered)) if noes else None,
        outcomes={str(positions[each.target_key]): each.told for each in ordered if each.target_key in positions},
        attempts=max(each.attempt for each in ordered),
        provider=shown.provider,
        provider_message_id=shown.provider_message_id,
        sent_at=None if noes else max(each.at for each in ordered),
    )


def _error(noes: Sequence[Ended], recipients: int) -> str:
    first = noes[0]
    if recipients == 1:
        told = first.detail
    else:
        told = f"{len(noes)} of {recipients} recipients refused: {first.detail or first.why}"
    return (f"{first.why}: {told}" if told else first.why)[:_ERROR_LIMIT]
