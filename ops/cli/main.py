"""`ulak`: every command of operators and developers. Each group is a file of its own; this one only mounts them."""

import sys

import typer
from rich.console import Console

from ops.cli import api_keys, database, keys, send, templates, topics, users, why
from ops.cli.errors import CommandError
from ops.demo import commands as demo
from ops.dev import commands as dev
from ops.simulator import commands as simulator

app = typer.Typer(
    name="ulak",
    help="Ulak, the notification system: set up, run, send, explain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help and errors: a log or a script shows them as well as a terminal
)

app.add_typer(dev.app, name="dev")
app.command(name="demo")(demo.demo)
app.command(name="send")(send.send)
app.command(name="why")(why.why)
app.add_typer(database.app, name="db")
app.add_typer(topics.app, name="topics")
app.add_typer(keys.app, name="keys")
app.add_typer(api_keys.app, name="api-keys")
app.add_typer(templates.app, name="templates")
app.add_typer(users.app, name="users")
app.command(name="simulator")(simulator.simulator)


def run() -> None:
    """Entry point: what a person can act on is one sentence and exit 1; anything else is a bug and shows its trace."""
    try:
        app()
    except CommandError as error:
        Console(stderr=True).print(f"[red]{error}[/red]", highlight=False)
        sys.exit(1)
