"""`ulak consents`: what the registry knows of the ledger, the ledger as a file, and refused lines told again.

Exit codes: 0 done; 1 the database or the key ring cannot be used, or what was named is not there; 2 a wrong argument.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.errors import CommandError
from shared.core.identifier import CONSENT, InvalidIdError, parse_public_id, public_id
from shared.core.sealing import KeyRing
from shared.postgres.consent import BEGINNING, Recorded, pages
from shared.postgres.errors import PostgresError, translated
from shared.postgres.iys_record import RefusedRecord, StateCount, count_records, refused_records, retry_records
from shared.postgres.pool import Connection, connect, open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, KeyRingSettings, load_ring_source
from shared.runtime.settings import load

app = typer.Typer(help="Look into the ledger of consents and its sync with İYS.", no_args_is_help=True)
iys = typer.Typer(help="The sync with İYS, the registry of commercial messages.", no_args_is_help=True)
app.add_typer(iys, name="iys")

_SHOWN = 20
_ADVICE = {
    "PENDING": "waits to be told; if it stays, see that a relay runs with ULAK_IYS_*",
    "SUBMITTED": "told; the registry works on it",
    "ACCEPTED": "the registry has it",
    "REJECTED": "correct what the code names, then `ulak consents iys retry`",
}
T = TypeVar("T")
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@app.command()
def status(*, as_json: JsonOption = False) -> None:
    """How many changed consents the registry has, waits for, or refused; and the latest refusals."""
    counts, refused = _connected(_status)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "records": {count.state: count.records for count in counts},
                    "refused": [_refused_body(record) for record in refused],
                }
            )
        )
        return
    console = Console()
    if not counts:
        console.print("No consent has changed yet that the registry has a type for.", highlight=False)
        return
    table = Table("state", "consents", "since", "meaning")
    for count in counts:
        table.add_row(count.state, str(count.records), _moment(count.oldest), _ADVICE.get(count.state, ""))
    console.print(table)
    for record in refused:
        word = "consent" if record.granted else "refusal"
        console.print(
            f"{public_id(CONSENT, record.consent_id)} {record.channel} {word} of {_moment(record.at)}: "
            f"{record.code} {record.detail}",
            highlight=False,
            markup=False,
        )


@app.command()
def export(
    *,
    after: Annotated[str | None, typer.Option(help="Go on behind this consent id.")] = None,
) -> None:
    """Print the whole ledger as NDJSON, oldest line first, with addresses and evidence in the clear."""
    try:
        start = BEGINNING if after is None else parse_public_id(CONSENT, after)
    except InvalidIdError as error:
        raise typer.BadParameter(str(error), param_hint="--after") from error
    try:
        asyncio.run(_export(load(PostgresSettings), load_ring_source(load(KeyRingSettings)).ring, start))
    except (PostgresError, KeyRingError) as error:
        raise CommandError(str(error)) from error


@iys.command()
def retry(
    consents: Annotated[list[str] | None, typer.Argument(help="Consent ids; none: all that were refused.")] = None,
    *,
    code: Annotated[str | None, typer.Option(help="Only those that were refused with this code.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell refused consents again, once their cause is mended. Safe to repeat."""
    try:
        ids = [parse_public_id(CONSENT, text) for text in consents] if consents else None
    except InvalidIdError as error:
        raise typer.BadParameter(str(error), param_hint="CONSENTS") from error

    async def put_back(connection: Connection) -> int:
        return await retry_records(connection, ids=ids, code=code)

    count = _connected(put_back)
    if as_json:
        typer.echo(json.dumps({"retried": count}))
    elif count:
        typer.echo(f"{count} consent{'' if count == 1 else 's'} will be told again.")
    elif ids is not None or code is not None:
        raise CommandError("none of these was refused: `ulak consents status` lists the refused ones")
    else:
        typer.echo("Nothing to do: the registry refused none.")


async def _status(connection: Connection) -> tuple[list[StateCount], list[RefusedRecord]]:
    return await count_records(connection), await refused_records(connection, limit=_SHOWN)


def _connected(work: Callable[[Connection], Awaitable[T]]) -> T:
    async def run() -> T:
        async with connect(load(PostgresSettings), name="consents") as connection:
            return await work(connection)

    try:
        return asyncio.run(run())
    except PostgresError as error:
        raise CommandError(str(error)) from error


async def _export(settings: PostgresSettings, ring: KeyRing, after: UUID) -> None:
    with translated():
        async with open_pool(settings, name="consents", size=2) as pool:
            async for page in pages(pool, after=after):
                typer.echo(b"".join(orjson.dumps(_line(line, ring)) + b"\n" for line in page), nl=False)


def _line(line: Recorded, ring: KeyRing) -> dict[str, Any]:
    return line.body() | line.opened(ring)


def _refused_body(record: RefusedRecord) -> dict[str, Any]:
    return {
        "consentId": public_id(CONSENT, record.consent_id),
        "channel": record.channel,
        "granted": record.granted,
        "at": record.at.isoformat(),
        "code": record.code,
        "detail": record.detail,
        "attempts": record.attempts,
    }


def _moment(at: datetime) -> str:
    return at.astimezone().isoformat(timespec="seconds")
