"""One user's inbox as their app sees it: entries opened, positions as cursors."""

import base64
import binascii
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.inbox import Entry, InboxStore, Position, Shelf
from shared.core.sealing import Purpose, SealError, UnknownKeyError, open_sealed
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger

_log = get_logger(__name__)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_CURSOR: Final = struct.Struct(">q16s")


class InvalidCursorError(ValueError):
    """A text that is no cursor of ours."""


@dataclass(frozen=True, slots=True)
class Page:
    """entries as they are answered, newest first; cursor None: there is nothing further."""

    entries: Sequence[Mapping[str, Any]]
    cursor: str | None


class InboxReader:
    """Reads and opens. Raises UnavailableError when the storage cannot be asked."""

    def __init__(self, store: InboxStore, rings: RingSource) -> None:
        self._store = store
        self._rings = rings

    async def page(self, user_id: int, shelf: Shelf, *, cursor: str | None, limit: int) -> Page:
        """One page; InvalidCursorError for a cursor that is none."""
        before = None if cursor is None else parse_cursor(cursor)
        entries = await self._store.page(user_id, shelf, before=before, limit=limit)
        last = cursor_of(entries[-1].position) if len(entries) == limit else None
        return Page([self._body(entry) for entry in entries], last)

    async def news(
        self, user_id: int, position: Position, *, limit: int
    ) -> Sequence[tuple[Position, Mapping[str, Any]]]:
        """What came after a position, oldest first, each with its own position."""
        entries = await self._store.after(user_id, position, limit=limit)
        return [(entry.position, self._body(entry)) for entry in entries]

    async def newest(self, user_id: int) -> Position:
        """Where the inbox ends now; an empty one ends at its beginning."""
        entries = await self._store.page(user_id, Shelf.INBOX, limit=1)
        return entries[0].position if entries else Position(_EPOCH, UUID(int=0))

    def _body(self, entry: Entry) -> dict[str, Any]:
        """As it is answered. An entry that no key opens keeps its place and says nothing: the list must not fail."""
        content = self._content(entry)
        return {
            "notificationId": public_id(NOTIFICATION, entry.notification_id),
            "type": entry.type_name,
            "title": content.get("title", ""),
            "body": content.get("body", ""),
            "url": content.get("url"),
            "locale": entry.locale,
            "state": entry.state,
            "createdAt": entry.created_at,
            "seenAt": entry.seen_at,
            "readAt": entry.read_at,
            "archivedAt": entry.archived_at,
        }

    def _content(self, entry: Entry) -> Mapping[str, str]:
        try:
            content: Mapping[str, str] = orjson.loads(self._opened(entry))
        except SealError as error:
            _log.error("inbox_entry_unopened", notification_id=str(entry.notification_id), reason=type(error).__name__)
            return {}
        return content

    def _opened(self, entry: Entry) -> bytes:
        row = entry.notification_id.bytes
        try:
            return open_sealed(self._rings.ring, Purpose.INBOX, row, entry.content_sealed)
        except UnknownKeyError:
            if not self._rings.refresh():
                raise
            return open_sealed(self._rings.ring, Purpose.INBOX, row, entry.content_sealed)


def cursor_of(position: Position) -> str:
    """A position as callers carry it: opaque, of 32 characters."""
    micros = (position.created_at - _EPOCH) // _MICROSECOND
    return base64.urlsafe_b64encode(_CURSOR.pack(micros, position.notification_id.bytes)).decode()


def parse_cursor(text: str) -> Position:
    """Inverse of `cursor_of`; InvalidCursorError for anything else."""
    try:
        micros, identifier = _CURSOR.unpack(base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True))
        return Position(_EPOCH + timedelta(microseconds=micros), UUID(bytes=identifier))
    except (binascii.Error, struct.error, UnicodeEncodeError, OverflowError) as error:
        raise InvalidCursorError("not a cursor: send one as it was answered") from error
