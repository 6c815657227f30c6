"""What one attempt meant: the closed set of semantics.md section 4. Decided per provider in a pure `classify.py`."""

from dataclasses import dataclass
from enum import StrEnum

from shared.core.cost import Cost


class Scope(StrEnum):
    """How far a throttle reaches: everybody on the account, one recipient domain, or this target alone."""

    ACCOUNT = "account"
    DOMAIN = "domain"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took it; `message_id` is the provider's own id for it, when it gives one; cost: of an SMS."""

    message_id: str | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class Transient:
    """May work later. `not_processed`: the provider is documented not to have processed the request.

    Only then may an at-most-once delivery be tried again; otherwise it becomes UNKNOWN. of_target: the recipient's side
    is why (greylisting, handset off), so that it says nothing about the provider account.
    """

    detail: str
    not_processed: bool = False
    of_target: bool = False


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too fast. `retry_after_sec` as the provider said it, None if it did not. Never counts as an attempt."""

    scope: Scope
    detail: str
    retry_after_sec: float | None = None


@dataclass(frozen=True, slots=True)
class Permanent:
    """Will never be taken as it is. `dead_letter`: a person must look (bad payload, render error).

    of_account: many of these in a row mean that the account is set up wrongly, not that so many targets are bad (P6).
    """

    detail: str
    dead_letter: bool = True
    of_account: bool = False


@dataclass(frozen=True, slots=True)
class FileUnread:
    """A file of the message could not be read, so no provider was spoken to: the storage's fault, and ours.

    permanent: it is no reference, is not there, or is too large; else the storage may have it at another attempt.
    """

    detail: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class TargetGone:
    """The address is dead: device off, or address suppressed."""

    detail: str


@dataclass(frozen=True, slots=True)
class ProviderDown:
    """Nothing wrong with the message: credentials refused, TLS failure, SMTP 5xx at the greeting. Burns no attempt.

    whole_account: nothing at all will be taken, so that its breaker opens at once; False: one sender or app of it.
    """

    detail: str
    whole_account: bool = True


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


Outcome = Accepted | Transient | Throttled | Permanent | FileUnread | TargetGone | ProviderDown | Ambiguous | NotSent
