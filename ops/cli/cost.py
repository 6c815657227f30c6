"""`ulak cost`: what messages cost, by type, day and provider. Reads the database itself (`ULAK_POSTGRES_DSN`).

Exit codes: 0 done; 1 the database cannot be used; 2 a wrong argument.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final

import asyncpg
import orjson
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.age import parse_age
from ops.cli.errors import CommandError
from shared.core.cost import MICROS
from shared.core.identifier import lowest_id_at
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import connect
from shared.postgres.query import load_queries
from shared.postgres.settings import PostgresSettings
from shared.runtime.settings import load

_SQL: Final = load_queries("cost")


class By(StrEnum):
    TYPE = "type"
    DAY = "day"
    PROVIDER = "provider"


def cost(
    *,
    last: Annotated[str, typer.Option(help="How far back: 12h, 30d, 4w.")] = "30d",
    by: Annotated[list[By] | None, typer.Option(help="Sums for each: type, day, provider; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Tell what SMS cost: messages, segments and price, as providers took them. Days are UTC."""
    try:
        age = parse_age(last)
    except ValueError as error:
        raise CommandError(f"--last: {error}.") from error
    wanted = [each for each in By if each in (by or [By.TYPE])]
    now = datetime.now(UTC)
    rows = _rows(wanted, now - age, now)
    if as_json:
        typer.echo(orjson.dumps({"costs": [_body(row, wanted) for row in rows]}, option=orjson.OPT_INDENT_2))
    elif not rows:
        typer.echo(f"No SMS was taken by a provider in the last {last}.")
    else:
        _print(rows, wanted)


def _rows(wanted: Sequence[By], start: datetime, end: datetime) -> Sequence[asyncpg.Record]:
    async def ask() -> Sequence[asyncpg.Record]:
        async with connect(load(PostgresSettings), name="cost") as connection:
            with translated():
                async with connection.transaction(readonly=True):
                    bounds = lowest_id_at(start), lowest_id_at(end)
                    return await connection.fetch(_SQL["cost_of_messages"], *bounds, *(each in wanted for each in By))

    try:
        return asyncio.run(ask())
    except PostgresError as error:
        raise CommandError(f"{error}.") from error


def _amount(micros: int | None) -> str | None:
    """Exact, with as many decimals as it takes, two at least; None where no price was known."""
    if micros is None:
        return None
    amount = (Decimal(micros) / MICROS).normalize()
    return f"{amount:.2f}" if amount == amount.quantize(Decimal("0.01")) else f"{amount:f}"


def _body(row: asyncpg.Record, wanted: Sequence[By]) -> dict[str, Any]:
    return {each.value: row[each.value] for each in wanted} | {
        "messages": row["messages"],
        "segments": row["segments"],
        "price": _amount(row["micros"]),
        "currency": row["currency"],
    }


def _print(rows: Sequence[asyncpg.Record], wanted: Sequence[By]) -> None:
    table = Table(box=None, pad_edge=False)
    for each in wanted:
        table.add_column(each.value, overflow="fold")
    for name in ("messages", "segments", "price"):
        table.add_column(name, justify="right")
    for row in rows:
        price = _amount(row["micros"])
        shown = "not known" if price is None else f"{price} {row['currency']}"
        table.add_row(*(str(row[each.value]) for each in wanted), str(row["messages"]), str(row["segments"]), shown)
    Console(highlight=False).print(table)
