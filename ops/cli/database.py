"""`ulak db`: set up and look after PostgreSQL. Where it is comes from ULAK_POSTGRES_DSN.

Exit codes: 0 all is well; 1 something is wrong, and what to do was printed; 2 a setting is wrong.
"""

import asyncio
import json
from collections.abc import Coroutine
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from ops.cli.errors import CommandError
from shared.core.identifier import NOTIFICATION, public_id
from shared.postgres.audit import Audit, audit
from shared.postgres.check import Finding, ServerFacts, judge, read_facts
from shared.postgres.dsn import shown
from shared.postgres.errors import PostgresError, UnavailableError
from shared.postgres.partition import DAYS_AHEAD, DAYS_BACK, Dropped, drop_partitions, ensure_partitions
from shared.postgres.pool import connect
from shared.postgres.role import ME_GRANTS, ME_ROLE, put_role
from shared.postgres.schema import check_revision, current_revision, head_revision
from shared.postgres.settings import PostgresSettings
from shared.runtime.settings import load

app = typer.Typer(help="Set up and look after the database.", no_args_is_help=True)

T = TypeVar("T")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
AheadOption = Annotated[int, typer.Option("--ahead", min=0, max=60, help="Days to have partitions for, after today.")]


@app.command()
def migrate(
    *,
    ahead: AheadOption = DAYS_AHEAD,
    days_back: Annotated[
        int, typer.Option("--days-back", min=0, max=400, help="Days before today to have partitions for.")
    ] = DAYS_BACK,
    as_json: JsonOption = False,
) -> None:
    """Bring the schema to this release's revision and create missing partitions. Safe to repeat and to run twice."""
    out = Console(stderr=as_json)
    settings = load(PostgresSettings)
    before, after = head_revision(), head_revision()
    partitions = _run(_partitions_of_current(settings, ahead, days_back))
    if partitions is None:
        from shared.postgres.migrate import migrate as migrate_schema  # alembic costs half a second

        try:
            done = migrate_schema(settings.dsn, ahead=ahead, days_back=days_back, say=out.print)
        except PostgresError as error:
            raise CommandError(str(error)) from error
        before, after, partitions = done.before or "", done.after, done.partitions
    if as_json:
        _print_json({"before": before or None, "after": after, "partitions": list(partitions)})
    elif before == after:
        out.print(f"The schema is at revision {after}: nothing to do.")
    else:
        out.print(f"The schema is now at revision {after} (before: {before or 'none'}).")
    if partitions and not as_json:
        out.print(f"{len(partitions)} partitions created.")


@app.command()
def check(*, as_json: JsonOption = False) -> None:
    """Say whether the database is fit for this release: one line per subject, each fault with its remedy."""
    settings = load(PostgresSettings)
    try:
        facts = asyncio.run(_read_facts(settings))
    except UnavailableError as error:
        findings: tuple[Finding, ...] = (
            Finding("reachable", shown(settings.dsn), f"start PostgreSQL or correct ULAK_POSTGRES_DSN: {error}"),
        )
    else:
        findings = (Finding("reachable", shown(settings.dsn)), *judge(facts, _today()))
    if as_json:
        _print_json(
            {
                "ok": all(finding.ok for finding in findings),
                "findings": [
                    {"subject": f.subject, "state": f.state, "ok": f.ok, "remedy": f.remedy} for f in findings
                ],
            }
        )
    else:
        table = Table.grid(padding=(0, 2))
        for finding in findings:
            mark = "[green]ok[/green]" if finding.ok else "[red]wrong[/red]"
            table.add_row(mark, finding.subject, finding.state, finding.remedy or "")
        Console().print(table)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


@app.command()
def partitions(
    *,
    ahead: AheadOption = DAYS_AHEAD,
    drop_older_than: Annotated[
        int | None,
        typer.Option("--drop-older-than", min=1, metavar="DAYS", help="Drop days older than this that nothing needs."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create the daily partitions that are missing and, where asked, drop old ones. Blocks no traffic."""
    today = _today()
    cutoff = None if drop_older_than is None else today - timedelta(days=drop_older_than)
    created, dropped = _run(_partitions(load(PostgresSettings), today, ahead, cutoff))
    if as_json:
        _print_json(
            {
                "created": list(created),
                "dropped": list(dropped.names),
                "held": [{"day": day.isoformat(), "by": list(kinds)} for day, kinds in dropped.held],
            }
        )
        return
    out = Console()
    out.print(f"{len(created)} partitions created, {len(dropped.names)} dropped.")
    for day, kinds in dropped.held:
        out.print(f"{day} stays: it still holds {', '.join(kinds)}.")


@app.command(name="audit")
def audit_command(
    *,
    newest_days: Annotated[
        int | None, typer.Option("--days", min=1, help="Look at the newest days only; all by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that no row is orphaned and no work forgotten; exit 1 and say what was found otherwise."""
    found = _run(_audit(load(PostgresSettings), newest_days))
    if as_json:
        _print_json(
            {
                "ok": found.clean,
                "days": [day.isoformat() for day in found.days],
                "findings": [
                    {
                        "rule": f.rule,
                        "day": f.day.isoformat(),
                        "count": f.count,
                        "sample": [public_id(NOTIFICATION, value) for value in f.sample],
                        "meaning": f.meaning,
                        "remedy": f.remedy,
                    }
                    for f in found.findings
                ],
            }
        )
    else:
        _print_audit(found)
    if not found.clean:
        raise typer.Exit(1)


@app.command()
def roles(
    *,
    name: Annotated[str, typer.Option(help="Of the role that services.me connects as.")] = ME_ROLE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the grants; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the database role of the user's API, or bring its rights up to date. Safe to repeat, also under traffic.

    It gets no password here: set one with ALTER ROLE, and put it into the DSN of services.me alone.
    """
    created = False if dry_run else _run(_roles(load(PostgresSettings), name))
    if as_json:
        _print_json({"role": name, "created": created, "grants": [grant.statement(name) for grant in ME_GRANTS]})
        return
    if dry_run:
        for grant in ME_GRANTS:
            typer.echo(f"{grant.statement(name)};")
        return
    tables = len({grant.table for grant in ME_GRANTS})
    typer.echo(f"{name} {'was made' if created else 'was there'}; it has {len(ME_GRANTS)} rights on {tables} tables.")
    if created:
        typer.echo(f"Set its password (ALTER ROLE {name} PASSWORD ...) and connect services.me as it.")


async def _roles(settings: PostgresSettings, name: str) -> bool:
    async with connect(settings, name="db roles") as connection:
        check_revision(await current_revision(connection))
        return await put_role(connection, name)


async def _partitions_of_current(settings: PostgresSettings, ahead: int, days_back: int) -> tuple[str, ...] | None:
    """Create missing partitions of a schema that is at this release's revision; None if it is at another, or none."""
    async with connect(settings, name="migrate") as connection:
        if await current_revision(connection) != head_revision():
            return None
        return await ensure_partitions(connection, _today(), ahead=ahead, days_back=days_back)


async def _read_facts(settings: PostgresSettings) -> ServerFacts:
    async with connect(settings, name="db check") as connection:
        return await read_facts(connection)


async def _partitions(
    settings: PostgresSettings, today: date, ahead: int, cutoff: date | None
) -> tuple[tuple[str, ...], Dropped]:
    async with connect(settings, name="db partitions") as connection:
        check_revision(await current_revision(connection))
        created = await ensure_partitions(connection, today, ahead=ahead)
        return created, Dropped((), ()) if cutoff is None else await drop_partitions(connection, cutoff)


async def _audit(settings: PostgresSettings, newest_days: int | None) -> Audit:
    async with connect(settings, name="db audit") as connection:
        check_revision(await current_revision(connection))
        return await audit(connection, datetime.now(UTC), newest_days=newest_days)


def _print_audit(found: Audit) -> None:
    out = Console()
    for finding in found.findings:
        out.print(f"[red]{finding.day}[/red] {finding.count} {finding.meaning}: {finding.remedy}.")
        out.print(f"    {' '.join(public_id(NOTIFICATION, value) for value in finding.sample)}")
    if found.clean:
        out.print(f"{len(found.days)} days looked at: no orphans, nothing overdue.")


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except PostgresError as error:
        raise CommandError(str(error)) from error


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value))


def _today() -> date:
    return datetime.now(UTC).date()
