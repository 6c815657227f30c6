"""What one attempt meant: the closed set of semantics.md section 4. Decided per provider in a pure `classify.py`."""

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """How far a throttle reaches: everybody on the account, one recipient domain, or this target alone."""

    ACCOUNT = "account"
    DOMAIN = "domain"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took it; `message_id` is the provider's own id for it, when it gives one."""

    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Transient:
    """May work later. `not_processed`: the provider is documented not to have processed the request.

    Only then may an at-most-once delivery be tried again; otherwise it becomes UNKNOWN.
    """

    detail: str
    not_processed: bool = False


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too fast. `retry_after_sec` as the provider said it, None if it did not. Never counts as an attempt."""

    scope: Scope
    detail: str
    retry_after_sec: float | None = None


@dataclass(frozen=True, slots=True)
class Permanent:
    """Will never be taken as it is. `dead_letter`: a person must look (bad payload, render error)."""

    detail: str
    dead_letter: bool = True


@dataclass(frozen=True, slots=True)
class TargetGone:
    """The address is dead: device off, or address suppressed."""

    detail: str


@dataclass(frozen=True, slots=True)
class ProviderDown:
    """Nothing wrong with the message: credentials refused, TLS failure, SMTP 5xx at the greeting. Burns no attempt."""

    detail: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Nobody knows: a time-out after the request was written, a connection lost, a code we do not recognise.

    (`Unknown` in semantics.md; named so that it is not mixed up with the delivery status UNKNOWN it may lead to.)
    `unrecognised` alarms: the provider answered something its table does not list.
    """

    detail: str
    unrecognised: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """Claimed, but never put on the wire (shutdown, lease too short): goes back, no attempt counted."""

    detail: str


Outcome = Accepted | Transient | Throttled | Permanent | TargetGone | ProviderDown | Ambiguous | NotSent
