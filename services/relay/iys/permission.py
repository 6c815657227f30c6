"""A ledger line as the registry takes it, and its answers as values. Pure.

Shapes: dev.iys.org.tr, "İzin Yönetimi": Tekil İzin Ekleme, Asenkron Çoklu İzin Ekleme, Çoklu İzin Ekleme İsteği
Sorgulama, Tekil İzin Durumu Sorgulama, İzin Hareketi Sorgulama (Pull).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.core.consent import IYS_TYPES, RecipientKind, Source, Word, iys_date, iys_source, iys_status

_CODE_LIMIT = 32
_DETAIL_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Permission:
    """What is told of one line."""

    channel: str
    recipient: str = field(repr=False)
    kind: RecipientKind
    word: Word
    source: Source

    def body(self) -> dict[str, str]:
        """As `POST .../consents` takes it."""
        return {
            **self.key(),
            "status": iys_status(self.word.granted),
            "source": iys_source(self.source),
            "consentDate": iys_date(self.word, self.source),
        }

    def key(self) -> dict[str, str]:
        """What makes it one permission, as `POST .../consents/status` asks for it."""
        return {"type": IYS_TYPES[self.channel], "recipient": self.recipient, "recipientType": self.kind}


@dataclass(frozen=True, slots=True)
class Taken:
    """The registry has it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The registry will not have it as it is. location: the field, where it says which."""

    code: str
    detail: str
    location: str = ""

    @property
    def shown(self) -> str:
        return f"{self.location}: {self.detail}" if self.location else self.detail


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A batch was taken in; what becomes of each line is asked for by these ids, in the order of the request."""

    request_id: str
    sub_request_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Change:
    """A citizen's own change, as the registry tells it."""

    transaction_id: str
    type: str
    recipient: str = field(repr=False)
    kind: str
    status: str
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class Changes:
    """after: where the next pull goes on."""

    after: str
    changes: Sequence[Change]


def read_refusal(body: Any) -> Refusal:
    """The first error of `{"errors": [{"location": [...], "code", "message"}]}`."""
    first = _first(body.get("errors")) if isinstance(body, Mapping) else {}
    location = first.get("location")
    return Refusal(
        _text(first.get("code"))[:_CODE_LIMIT],
        _text(first.get("message"))[:_DETAIL_LIMIT],
        ".".join(map(str, location)) if isinstance(location, list) else _text(location),
    )


def read_enqueued(body: Any, lines: int) -> Enqueued | None:
    """None for an answer that does not name each line."""
    if not isinstance(body, Mapping) or not isinstance(body.get("subRequests"), list):
        return None
    ids = [_text(each.get("subrequestId")) for each in body["subRequests"] if isinstance(each, Mapping)]
    if len(ids) != lines or not all(ids) or not body.get("requestId"):
        return None
    return Enqueued(_text(body["requestId"]), ids)


def read_results(body: Any) -> Mapping[str, Taken | Refusal]:
    """By sub-request id, those that are decided: `enqueue` and `processing` are not."""
    found: dict[str, Taken | Refusal] = {}
    for entry in body if isinstance(body, list) else ():
        if not isinstance(entry, Mapping):
            continue
        sub_id = _text(entry.get("subrequestId"))
        if entry.get("status") == "success":
            found[sub_id] = Taken()
        elif entry.get("status") == "failure":
            error = entry.get("error")
            found[sub_id] = read_refusal({"errors": error if isinstance(error, list) else [error]})
    return found


def read_changes(body: Any, after: str) -> Changes:
    """Entries without an id or a recipient are nobody's."""
    if not isinstance(body, Mapping):
        return Changes(after, ())
    entries = [entry for entry in body.get("list") or () if isinstance(entry, Mapping)]
    changes = [
        Change(
            transaction_id=_text(entry.get("transactionId")),
            type=_text(entry.get("type")),
            recipient=_text(entry.get("recipient")),
            kind=_text(entry.get("recipientType")),
            status=_text(entry.get("status")),
            date=_text(entry.get("consentDate")),
            source=_text(entry.get("source")),
        )
        for entry in entries
        if entry.get("transactionId") and entry.get("recipient")
    ]
    return Changes(_text(body.get("after")) or after, changes)


def says_the_same(body: Any, permission: Permission) -> bool:
    """Whether the registry's own state (`consents/status`) is what the line says."""
    return isinstance(body, Mapping) and body.get("status") == iys_status(permission.word.granted)


def _first(errors: Any) -> Mapping[str, Any]:
    found = errors[0] if isinstance(errors, list) and errors else {}
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
