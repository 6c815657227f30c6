"""What the commands take, and how it is typed."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer

from ops.cli.age import Moment
from ops.cli.errors import CommandError
from shared.core.replay import Kind
from shared.postgres.dead_letter import LetterFilter

_NOTE_CHARS = 500

JsonOption = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
TopicArgument = Annotated[str, typer.Argument(help="A topic of dead letters, like `email-tx-dlq`.")]
ErrorOption = Annotated[
    str | None, typer.Option("--error", help="Of this error class, or with this in its detail: `exhausted`, `503`.")
]
TypeOption = Annotated[str | None, typer.Option("--type", help="Of this notification type.")]
SinceOption = Annotated[
    Moment | None,
    typer.Option("--since", parser=Moment.parse, metavar="WHEN", help="First seen since: 2h, 7d, or a time."),
]
UntilOption = Annotated[
    Moment | None, typer.Option("--until", parser=Moment.parse, metavar="WHEN", help="First seen before then.")
]
CampaignOption = Annotated[UUID | None, typer.Option("--campaign", help="Of this campaign.")]
ProviderOption = Annotated[str | None, typer.Option("--provider", help="Whose last attempt was with this provider.")]
KindOption = Annotated[
    Kind | None,
    typer.Option("--kind", help="exhausted: out of attempts; failed: to be mended; poison: could not be read."),
]
NoteOption = Annotated[str, typer.Option("--note", help="Why: kept with the letter, and in the audit log.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it; else only what would be done is told.")]


def wanted(
    error: str | None,
    type_name: str | None,
    since: Moment | None,
    until: Moment | None,
    campaign: UUID | None,
    provider: str | None,
    kind: Kind | None,
) -> LetterFilter:
    """The filter that the options are."""
    now = datetime.now(UTC)
    return LetterFilter(
        error=error,
        type_name=type_name,
        since=None if since is None else since.seen_from(now),
        until=None if until is None else until.seen_from(now),
        campaign_id=campaign,
        provider=provider,
        kind=kind,
    )


def checked_note(note: str) -> str:
    """CommandError for one that says nothing, or too much."""
    if not 1 <= len(note.strip()) <= _NOTE_CHARS:
        raise CommandError(f"--note: say why in 1 to {_NOTE_CHARS} characters.")
    return note.strip()
