"""What several commands take, and how it is typed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import typer

from ops.cli.age import parse_age


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as an operator means it: so long before now, or at an instant of its own."""

    text: str
    value: timedelta | datetime

    @classmethod
    def parse(cls, text: str) -> "Moment":
        """`2h`, or RFC 3339 with its offset; typer.BadParameter otherwise."""
        try:
            return cls(text, parse_age(text))
        except ValueError as error:
            try:
                at = datetime.fromisoformat(text)
            except ValueError:
                raise typer.BadParameter(f"{error}, or a time like 2026-01-15T09:30:00+03:00") from error
        if at.tzinfo is None:
            raise typer.BadParameter(f"{text} has no offset: give one like 2026-01-15T09:30:00+03:00")
        return cls(text, at)

    def seen_from(self, now: datetime) -> datetime:
        """The instant that is meant."""
        return self.value if isinstance(self.value, datetime) else now - self.value


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME",
        help="Only this one of ULAK_RELAY_SOURCES, or `own` for Ulak's own database; else all of them.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it; else only what would be done is told.")]
