"""How receipts are sent: their mode, their plan (pure), and what is counted. What they look like is the provider's."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ReceiptMode(StrEnum):
    AUTOMATIC = "automatic"
    """Each status once, in order, soon."""
    DELAYED = "delayed"
    """The same, but only after the longer delay."""
    REPEATED = "repeated"
    """Each status twice."""
    SHUFFLED = "shuffled"
    """Each once, in random order."""
    WITHHELD = "withheld"
    """None, until `POST /_sim/callbacks/{reference}`."""


class ReceiptPolicy(BaseModel):
    """The body of `PUT /_sim/receipts`. Delays are between one receipt and the next."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    mode: ReceiptMode = ReceiptMode.AUTOMATIC
    delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 20
    late_delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 5_000


@dataclass(frozen=True, slots=True)
class Step:
    """One receipt: seconds to wait after the one before it, its status, and whether it is posted or only happens."""

    wait_sec: float
    status: str
    posted: bool = True


def plan(statuses: Sequence[str], policy: ReceiptPolicy, random: Random) -> list[Step]:
    """The receipts of one message in the order they go out."""
    wait = policy.delay_ms / 1000
    match policy.mode:
        case ReceiptMode.AUTOMATIC:
            return [Step(wait, status) for status in statuses]
        case ReceiptMode.DELAYED:
            return [Step(policy.late_delay_ms / 1000, status) for status in statuses]
        case ReceiptMode.REPEATED:
            return [Step(wait, status) for status in statuses for _ in range(2)]
        case ReceiptMode.SHUFFLED:
            return [Step(wait, status) for status in random.sample(statuses, len(statuses))]
        case ReceiptMode.WITHHELD:
            return [Step(wait, status, posted=False) for status in statuses]


class NoReceiptError(Exception):
    """A receipt was asked for that cannot be sent; the message says why."""


class ReceiptSender(Protocol):
    """A provider that sends receipts, as the control API sees it."""

    policy: ReceiptPolicy

    async def send_now(self, reference: str, status: str, error_code: int | None) -> int | None:
        """Send one receipt at once for the last message with this reference.

        Returns the receiver's HTTP status, None if it could not be reached. Raises NoReceiptError.
        """

    def counts(self) -> dict[str, int]:
        """Receipts sent (answered 2xx), failed (given up), planned."""

    def clear(self) -> None:
        """Forget messages and receipts still planned."""
