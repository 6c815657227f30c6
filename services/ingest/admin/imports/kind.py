"""What an import's lines can be: how one is read, and how many are written."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.web.problem import FieldError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """refused: lines that could not be taken, by their positions. users: ours, whose preferences are others now."""

    refused: Mapping[int, FieldError] = field(default_factory=dict)
    users: Collection[int] = ()


class ImportKind(Protocol[T]):
    """One kind of lines. name as in the path; line documents it."""

    @property
    def name(self) -> str: ...

    @property
    def line(self) -> type[BaseModel]: ...

    def read(self, content: Any, now: datetime) -> T | tuple[FieldError, ...]:
        """A line's JSON, checked; or what is wrong in it, never repeating a value. Pure."""
        ...

    async def write(self, connection: Connection, ring: KeyRing, values: Sequence[T], *, recorded_by: str) -> Written:
        """Write checked lines in the caller's transaction, to the effect of one after the other.

        Raises what asyncpg raises: for a line that the database refuses, the importer finds it.
        """
        ...
