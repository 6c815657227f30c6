"""`replay`: dead letters. On the database and on Kafka themselves (`ULAK_POSTGRES_DSN`, `ULAK_KAFKA_*`).

Exit codes: 0 done, or told what would be; 1 it could not be done, or not to its end; 2 a wrong argument.
"""

import sys
from typing import Final

import typer
from rich.console import Console

from ops.cli.errors import CommandError
from ops.cli.replay.closing import close, purge
from ops.cli.replay.listing import list_letters, runs, show
from ops.cli.replay.running import run as run_replay

app: Final = typer.Typer(
    name="replay",
    help="Dead letters: see what could not be sent, send it once it can be, and end what never can.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("list")(list_letters)
app.command("show")(show)
app.command("run")(run_replay)
app.command("runs")(runs)
app.command("close")(close)
app.command("purge")(purge)


def run() -> None:
    """Entry point; errors as `ulak` tells them."""
    try:
        app()
    except CommandError as error:
        Console(stderr=True).print(f"[red]{error}[/red]", highlight=False)
        sys.exit(1)
