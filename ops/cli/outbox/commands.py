"""`ulak outbox`: its commands. Each but `ddl` is a file of its own.

Exit codes: 0 done, also where nothing waits; 1 a source has no answer, or what was named is not there or cannot be
done; 2 a setting or an argument is wrong.
"""

import json
from enum import StrEnum
from typing import Annotated

import typer

from ops.cli.outbox.option import JsonOption
from ops.cli.outbox.republish import republish
from ops.cli.outbox.requeue import requeue
from ops.cli.outbox.show import show
from ops.cli.outbox.status import status
from shared.postgres import producer

app = typer.Typer(help="Install, look into and repair the tables that services enqueue in.", no_args_is_help=True)


class EmailModel(StrEnum):
    """A: sent straight from the service's table; B: by Ulak's ledger and the Kafka workers."""

    A = "A"
    B = "B"


@app.command()
def ddl(
    *,
    email_model: Annotated[
        EmailModel | None,
        typer.Option("--email-model", help="What e-mails get that name no model; else the database's choice stays."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the schema for a service's own database: `ulak outbox ddl | psql "$ITS_DSN"`. Safe to repeat.

    The same text installs it and brings an older version up to date, in one transaction. Needs no setting.
    """
    text = producer.ddl(email_model=None if email_model is None else email_model.value)
    typer.echo(json.dumps({"version": producer.VERSION, "sql": text}) if as_json else text, nl=as_json)


for command in (status, show, requeue, republish):
    app.command()(command)
