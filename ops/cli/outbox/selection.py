"""Which rows a requeue is about."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Selection:
    """By id, or all that failed and fit what else is given; nothing given fits all.

    since: written at or after that moment. error: part of the error, in any case.
    """

    ids: frozenset[UUID] = frozenset()
    template: str | None = None
    error: str | None = None
    since: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return not self.ids and self.template is None and self.error is None and self.since is None
