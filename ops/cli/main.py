"""`ulak`: every command of operators and developers. Each group is a file of its own; this one only mounts them.

A command's file is loaded when it is called by name: loading all of them costs half a second, for help alone.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import typer
from rich.console import Console

from ops.cli.errors import CommandError

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "dev": ("ops.dev.commands", "app"),
    "demo": ("ops.demo.commands", "demo"),
    "send": ("ops.cli.send", "send"),
    "why": ("ops.cli.why", "why"),
    "db": ("ops.cli.database", "app"),
    "topics": ("ops.cli.topics", "app"),
    "outbox": ("ops.cli.outbox.commands", "app"),
    "pause": ("ops.cli.pause", "pause"),
    "resume": ("ops.cli.pause", "resume"),
    "pauses": ("ops.cli.pause", "pauses"),
    "provider": ("ops.cli.provider", "app"),
    "quota": ("ops.cli.quota", "app"),
    "cost": ("ops.cli.cost", "cost"),
    "keys": ("ops.cli.keys", "app"),
    "api-keys": ("ops.cli.api_keys", "app"),
    "templates": ("ops.cli.templates.commands", "app"),
    "consents": ("ops.cli.consents", "app"),
    "users": ("ops.cli.users", "app"),
    "import": ("ops.cli.import_file", "import_file"),
    "simulator": ("ops.simulator.commands", "simulator"),
}
"""Name -> module, and in it a group of commands (a Typer) or one command (a function)."""


def build(*names: str) -> typer.Typer:
    """`ulak` with these of its commands."""
    app = typer.Typer(
        name="ulak",
        help="Ulak, the notification system: set up, run, send, explain.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help and errors: a log or a script shows them as well as a terminal
    )
    app.callback()(lambda: None)  # so that a single command, too, is called by its name
    for name in names:
        module, attribute = COMMANDS[name]
        loaded = getattr(import_module(module), attribute)
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name)
        else:
            app.command(name=name)(loaded)
    return app


def run() -> None:
    """Entry point: what a person can act on is one sentence and exit 1; anything else is a bug and shows its trace."""
    named = [argument for argument in sys.argv[1:2] if argument in COMMANDS]
    try:
        build(*(named or COMMANDS))()
    except CommandError as error:
        Console(stderr=True).print(f"[red]{error}[/red]", highlight=False)
        sys.exit(1)
