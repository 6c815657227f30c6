"""What an SMTP server meant, by the phase it said it in. Pure.

Sources: RFC 5321 sections 4.2 (replies) and 4.5.4.1 (retry after 4yz, greylisting), RFC 3463 and the IANA registry of
enhanced status codes. A 4yz reply says that the message was not accepted, so it may always be tried again.
"""

import re
from enum import StrEnum
from typing import Final

from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)


class Phase(StrEnum):
    """Where in the dialogue. Up to DATA nothing has been accepted; at END only a reply tells."""

    CONNECT = "connect"
    GREETING = "greeting"
    TLS = "tls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    END = "end"


_SESSION: Final = frozenset({Phase.CONNECT, Phase.GREETING, Phase.TLS, Phase.AUTH})
_ENHANCED: Final = re.compile(r"^([245]\.\d{1,3}\.\d{1,3})\b")
_QUEUE_ID: Final = re.compile(r"queued as ([A-Za-z0-9.\-_]{1,128})", re.IGNORECASE)

_NO_MAILBOX: Final = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"})
"""No such mailbox or domain, bad syntax, moved, null MX, disabled: the address is dead."""
_RATE: Final = frozenset({"4.7.28", "4.2.1"})
"""Too much mail for this domain or mailbox at the moment."""
_OUR_SIDE: Final = frozenset({530, 534, 535, 538, 454})
"""Authentication wanted, too weak, wrong, or TLS needed: nothing about this message."""
_TOO_BIG: Final = 552
_BAD_SEQUENCE: Final = 503
_CLOSING: Final = 421


def enhanced(text: str) -> str | None:
    """The enhanced status code at the start of a reply's text."""
    match = _ENHANCED.match(text)
    return None if match is None else match[1]


def classify(phase: Phase, code: int, text: str) -> Outcome:
    """One reply that is not the go-ahead of its phase, or the last one of a mail, as one outcome.

    Only codes go into the detail: servers put addresses into their texts.
    """
    status = enhanced(text)
    detail = f"{phase} {code} {status or ''}".rstrip()
    if 200 <= code < 300:
        if phase is not Phase.END:
            return Ambiguous(detail, unrecognised=True)
        queued = _QUEUE_ID.search(text)
        return Accepted(None if queued is None else queued[1])
    if 400 <= code < 500:
        if status in _RATE:
            return Throttled(Scope.DOMAIN, detail)
        # Greylisting, a full mailbox: theirs alone. That the server closes says something about the server.
        return Transient(detail, not_processed=True, of_target=phase is Phase.RCPT and code != _CLOSING)
    if 500 <= code < 600:
        return _refused(phase, code, status, detail)
    return Ambiguous(detail, unrecognised=True)


def _refused(phase: Phase, code: int, status: str | None, detail: str) -> Outcome:
    if phase in _SESSION or code in _OUR_SIDE:
        return ProviderDown(detail)
    if code == _BAD_SEQUENCE:
        return Transient(detail, not_processed=True)  # our session is out of step; a fresh one is not
    if phase is Phase.MAIL and code != _TOO_BIG:
        return ProviderDown(detail, whole_account=False)  # our sender is refused, whoever the recipient is
    if phase is Phase.RCPT and status in _NO_MAILBOX:
        return TargetGone(detail)
    # A bare 550 at RCPT is "no mailbox, no access, or policy" (RFC 5321): too little to suppress an address for.
    return Permanent(detail, dead_letter=phase is not Phase.RCPT)


def lost(phase: Phase, what: str) -> Outcome:
    """The connection ended or a limit passed in this phase, without a reply."""
    if phase is Phase.END:
        return Ambiguous(f"{phase} {what}")
    return Transient(f"{phase} {what}", not_processed=True)
