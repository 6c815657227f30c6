"""What a call is answered with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ulak_client.http.error import UlakError, refusal


@dataclass(frozen=True, slots=True)
class Accepted:
    """Ulak has it: committed, so that no crash loses it.

    repeated: it had it already, from an earlier call with this id. applied_priority: only where the one asked for was
    more than the type allows.
    """

    notification_id: str
    repeated: bool
    applied_priority: str | None = None

    @classmethod
    def read(cls, status: int, body: Mapping[str, Any]) -> Self:
        return cls(str(body["notificationId"]), status == 200, _applied_priority(body))


@dataclass(frozen=True, slots=True)
class AcceptedEmail:
    """As `Accepted`. notification_id: None where the mail is sent from the table of e-mails itself (model A)."""

    email_id: str
    repeated: bool
    notification_id: str | None = None
    applied_priority: str | None = None

    @classmethod
    def read(cls, status: int, body: Mapping[str, Any]) -> Self:
        return cls(str(body["emailId"]), status == 200, body.get("notificationId"), _applied_priority(body))


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One item of a batch: either accepted or refused."""

    accepted: Accepted | None
    error: UlakError | None

    @classmethod
    def read(cls, event_id: str, item: Mapping[str, Any]) -> Self:
        if "problem" in item:
            return cls(None, refusal(item["status"], item["problem"], request_key=event_id))
        return cls(Accepted.read(item["status"], item), None)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Deliveries by what the cancel meant for them."""

    cancelled: int
    in_flight: int
    already_out: int

    @classmethod
    def read(cls, _status: int, body: Mapping[str, Any]) -> Self:
        return cls(body["cancelled"], body["inFlight"], body["alreadyOut"])


def _applied_priority(body: Mapping[str, Any]) -> str | None:
    clamped = body.get("priority")
    return None if clamped is None else clamped["applied"]
