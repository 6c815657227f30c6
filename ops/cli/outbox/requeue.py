"""`ulak outbox requeue`: what failed, on its way again once somebody has repaired what it failed by."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

import typer

from ops.cli.age import Moment
from ops.cli.errors import CommandError
from ops.cli.outbox.option import JsonOption, SourceOption, YesOption
from ops.cli.outbox.requeue_email import EmailRequeue
from ops.cli.outbox.requeue_event import requeue_events
from ops.cli.outbox.selection import Selection
from ops.cli.outbox.source import Answers, ask_each, databases, looking
from ops.cli.outbox.tally import Tally
from shared.core.identifier import EMAIL, InvalidIdError, parse_public_id
from shared.postgres.pool import Connection, connect
from shared.postgres.schema import check_revision, current_revision
from shared.postgres.settings import PostgresSettings
from shared.runtime.settings import load

Tallies = dict[str, Tally]
"""Of one source: its events and its e-mails."""

_NOUNS: Final = {"events": "event", "emails": "e-mail"}


def requeue(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="E-mails (`eml_...`) or events; else all that fit.")
    ] = None,
    *,
    source: SourceOption = None,
    template: Annotated[str | None, typer.Option("--template", help="E-mails of this template.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Whose error has this in it.")] = None,
    since: Annotated[
        Moment | None,
        typer.Option("--since", parser=Moment.parse, metavar="WHEN", help="Written since: 2h, 7d, or a time."),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put events that were set aside and e-mails that FAILED in line again. Without --yes, tell what would be done.

    Who has a mail is not sent it again, and neither is who was refused for good. Attempts are counted anew; the time to
    live is not. Exits with 1 if a source has no answer, or what was named is not there or cannot go.
    """
    now = datetime.now(UTC)
    selection = _selection(ids or [], template, error, None if since is None else since.seen_from(now), yes=yes)
    answers = asyncio.run(_requeue(source, selection, now, yes=yes))
    missing = selection.ids - {id_ for each in answers.found.values() for tally in each.values() for id_ in tally.found}
    if as_json:
        _print_json(answers, missing, done=yes)
    else:
        _print(answers, missing, done=yes)
    stayed = selection.ids and not all(tally.clean for each in answers.found.values() for tally in each.values())
    if answers.problems or missing or stayed:
        raise typer.Exit(1)


def _selection(
    ids: list[str], template: str | None, error: str | None, since: datetime | None, *, yes: bool
) -> Selection:
    """CommandError for what is not meant, or means more than anybody would type."""
    try:
        named = frozenset(parse_public_id(EMAIL, text) for text in ids)
    except InvalidIdError as wrong:
        raise CommandError(str(wrong)) from wrong
    selection = Selection(named, template, error, since)
    if named and (template, error, since) != (None, None, None):
        raise CommandError("ids say which rows are meant: leave --template, --error and --since away")
    if yes and selection.is_everything:
        raise CommandError(
            "say what to requeue: ids, --template, --error or --since (`--since 90d` is all that is kept)"
        )
    return selection


async def _requeue(source: str | None, selection: Selection, now: datetime, *, yes: bool) -> Answers[Tallies]:
    own_settings = load(PostgresSettings)

    async def work(name: str, connection: Connection) -> Tallies:
        async with connect(own_settings, name="outbox requeue") as own:
            async with looking(own):
                check_revision(await current_revision(own))
            emails = await EmailRequeue(name, connection, own, now=now, yes=yes).run(selection)
            if selection.template is not None:
                return {"emails": emails}
            return {"events": await requeue_events(name, connection, own, selection, yes=yes), "emails": emails}

    return await ask_each(databases(source), work)


def _print_json(answers: Answers[Tallies], missing: frozenset[UUID], *, done: bool) -> None:
    typer.echo(
        json.dumps(
            {
                "dryRun": not done,
                "sources": [
                    {"source": name} | {kind: tally.body() for kind, tally in each.items()}
                    for name, each in answers.found.items()
                ],
                "missing": [str(id_) for id_ in sorted(missing)],
                "problems": answers.problem_bodies(),
            }
        )
    )


def _print(answers: Answers[Tallies], missing: frozenset[UUID], *, done: bool) -> None:
    told = False
    for name, each in answers.found.items():
        lines = [line for kind, tally in each.items() for line in tally.lines(_NOUNS[kind], done=done)]
        if lines:
            typer.echo("\n".join([name, *lines]))
            told = True
    for name, problem in answers.problems.items():
        typer.echo(f"{name}: {problem}", err=True)
    for id_ in sorted(missing):
        typer.echo(f"no row {id_} in {', '.join(answers.found) or 'any source'}", err=True)
    if not told and not missing:
        typer.echo("Nothing that failed fits.")
    elif told and not done:
        typer.echo("Nothing was changed: --yes does it.")
