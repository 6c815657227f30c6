"""The inbox in the app: what an entry is, and the port of its storage.

PostgreSQL keeps it now; the key (user, time) is that of the seed, so that a wide-column store can take it later
(seed 003, data model).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

MAX_PAGE: Final = 100


class EntryState(StrEnum):
    """How far an entry has come. Each includes the ones before it, but for ARCHIVED, which an unread one may become."""

    UNSEEN = "unseen"
    SEEN = "seen"
    READ = "read"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry as the decision writes it. content_sealed: inbox-v1, row = the notification's id."""

    user_id: int
    notification_id: UUID
    created_at: datetime
    type_name: str
    content_sealed: bytes = field(repr=False)
    locale: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it stands."""

    notification_id: UUID
    created_at: datetime
    type_name: str
    content_sealed: bytes = field(repr=False)
    locale: str
    seen_at: datetime | None = None
    read_at: datetime | None = None
    archived_at: datetime | None = None

    @property
    def state(self) -> EntryState:
        if self.archived_at is not None:
            return EntryState.ARCHIVED
        if self.read_at is not None:
            return EntryState.READ
        return EntryState.UNSEEN if self.seen_at is None else EntryState.SEEN

    @property
    def position(self) -> "Position":
        return Position(self.created_at, self.notification_id)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in one user's inbox, which is ordered by it; newest first means from the greatest."""

    created_at: datetime
    notification_id: UUID


class Shelf(StrEnum):
    """Which part of an inbox a page is of."""

    INBOX = "inbox"
    """All but the archived."""
    UNREAD = "unread"
    ARCHIVED = "archived"


class InboxStore(Protocol):
    """Storage of inboxes. Every call is about one user, and sees and changes nothing of another's.

    Changes are idempotent, conditional and exact under concurrency: the unread count is always the number of entries
    that are neither read nor archived. Raises UnavailableError of the adapter when the storage cannot be asked.
    """

    async def page(
        self, user_id: int, shelf: Shelf, *, before: Position | None = None, limit: int = 50
    ) -> Sequence[Entry]:
        """At most `limit` (1 to MAX_PAGE) entries, newest first, all before that position."""

    async def after(self, user_id: int, position: Position, *, limit: int) -> Sequence[Entry]:
        """At most `limit` entries that came after that position, oldest first."""

    async def unread(self, user_id: int) -> int:
        """One row's read, whatever the size of the inbox."""

    async def change(self, user_id: int, notification_id: UUID, state: EntryState, at: datetime) -> bool:
        """Bring one entry to SEEN, READ or ARCHIVED; False if the user has no such entry. Never goes back: what is
        read stays read, and the first time stands.
        """

    async def read_all(self, user_id: int, *, until: datetime, at: datetime) -> int:
        """Everything that was there at `until` becomes read; how many were not."""
