"""One sentence per row that says what to do. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from ops.cli.text import moment
from shared.core.lifecycle import Reason

NOTHING: Final = "Nothing to do."

_OF_EVENTS: Final[Mapping[str, str]] = {
    "unknown_topic": "Create its topic, then requeue it.",
    "oversized": "Have its service send a reference instead of the content; or let the broker take larger ones, and "
    "requeue it.",
    "invalid_record": "The broker refuses it as it is: have its service tell it again, corrected, and delete this row.",
    "lost_key": "Bring its key back into the ring and requeue it; or have its service tell it again.",
    "tampered": "It was altered or moved, so it does not open: have its service tell it again, and delete this row.",
}
"""By the class of the error that a row was set aside with (services/relay/publication.py)."""

_OF_EMAILS: Final[Mapping[Reason, str]] = {
    Reason.EXHAUSTED: "See that the provider takes mail again, then requeue it.",
    Reason.RENDER: "Repair the template, then requeue it.",
    Reason.ATTACHMENT: "Put the file where its reference leads, then requeue it.",
    Reason.CONFIG: "Correct the setting or the sender that the error names, then requeue it.",
    Reason.NO_TEMPLATE: "`ulak templates push` its template, then requeue it.",
    Reason.UNKNOWN_TYPE: "`ulak templates push` its type, then requeue it.",
    Reason.UNSEALABLE: "Bring its key back into the ring and requeue it; or have its service enqueue it again.",
    Reason.EXPIRED: "Its time to live is over: have its service enqueue it again, if it still matters.",
    Reason.INVALID: "It can never be sent as it is: correct what the error names and enqueue a new e-mail.",
    Reason.PERMANENT: "It was refused for good: correct what the error says and enqueue a new e-mail.",
    Reason.TARGET_GONE: "The address takes no mail any more: correct it and enqueue a new e-mail.",
    Reason.SUPPRESSED: "The address refused mail before and is left out since: correct it and enqueue a new e-mail.",
    Reason.NO_CONSENT: "Nobody it goes to has consented to marketing: record it if somebody did, and enqueue again.",
    Reason.PREFERENCE: "The user does not want this kind of mail: nothing to do.",
    Reason.CANCELLED: "It was cancelled: nothing to do.",
    Reason.AMBIGUOUS: "Whether it arrived is not known: ask the provider by its message id, then enqueue it again.",
}

_WITH_WORKERS: Final = "It is with the workers: `ulak why` tells each attempt."
_WITH_RELAY: Final = "A relay is at it; should that one have died, it is PENDING again when the lease ends."
_DUE: Final = "If it stays here, see that a relay runs and reads this source."
_OTHER_EMAIL: Final = "See what the error says; `ulak outbox requeue` tells whether it can go again."


def for_event(state: str, error: str | None) -> str:
    """state: as `ulak outbox show` names it."""
    match state:
        case "due":
            return "If it stays here, see that a relay runs, reads this source and reaches Kafka."
        case "later":
            return "The relay looks at it again then; a row that rests so waits for a key that no relay has yet."
        case "published":
            return "It is published; should Kafka have lost it, `ulak outbox republish` brings it again."
        case _:
            known = (error or "").partition(":")[0]
            return _OF_EVENTS.get(known, "See what the error says, then requeue it.")


def for_email(
    status: str,
    error: str | None,
    *,
    in_ledger: bool,
    next_attempt_at: datetime,
    expires_at: datetime | None,
    now: datetime,
) -> str:
    """in_ledger: model B, and taken in."""
    match status:
        case "SENT":
            return NOTHING
        case "SENDING":
            return _WITH_WORKERS if in_ledger else _WITH_RELAY
        case "PENDING":
            return f"It is tried at {moment(next_attempt_at)}: nothing to do." if next_attempt_at > now else _DUE
        case _:
            return _failed(error, expired=expires_at is not None and expires_at <= now)


def _failed(error: str | None, *, expired: bool) -> str:
    if expired:
        return _OF_EMAILS[Reason.EXPIRED]
    known = _reason(error)
    return _OTHER_EMAIL if known is None else _OF_EMAILS.get(known, _OTHER_EMAIL)


def _reason(error: str | None) -> Reason | None:
    """What `email_messages.error_message` begins with."""
    try:
        return Reason((error or "").partition(":")[0])
    except ValueError:
        return None
