"""`ulak dev up|status|env|logs|down`: the embedded stack of this clone.

Exit codes: 0 done (also: `up` when it was up already, `down` when it was down, `status` of a stack that is down);
1 it could not be done, the sentence says why and what to do; 2 wrong arguments; 130 interrupted.
"""

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ops.dev.errors import AlreadyRunningError, NotRunningError, StackError
from ops.dev.files import tail
from ops.dev.logfile import follow
from ops.dev.plan import Extent
from ops.dev.stack import START_TIMEOUT_SEC, Stack
from ops.dev.status import Phase, ProcessState, StackStatus

app = typer.Typer(
    help="The embedded stack: real Kafka, PostgreSQL and Valkey, the provider simulator and all services.",
    no_args_is_help=True,
)


class Only(StrEnum):
    SERVERS = "servers"


@app.command()
def up(
    *,
    wait: Annotated[bool, typer.Option(help="Return when everything is ready.")] = True,
    only: Annotated[Only | None, typer.Option(help="Start the servers alone, without the services.")] = None,
    model_a: Annotated[
        bool, typer.Option("--model-a", help="E-mail from its table alone: PostgreSQL, a mail server, and the relay.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = START_TIMEOUT_SEC,
) -> None:
    """Start the stack in the background, on free ports; the first start fetches Kafka once for this machine.

    A server whose setting is in the environment (ULAK_POSTGRES_DSN, ULAK_REDIS_URL, ULAK_KAFKA_BOOTSTRAP_SERVERS)
    is used as it is and not started.
    """
    if only and model_a:
        raise typer.BadParameter("give one of --only and --model-a")
    extent = Extent.MODEL_A if model_a else Extent.SERVERS if only else Extent.ALL
    stack = Stack.here()
    began = time.monotonic()
    try:
        with _progress() as watch:
            status = stack.up(extent=extent, wait=wait, timeout_sec=timeout, watch=watch)
    except AlreadyRunningError as error:
        status = stack.status()
        if not (status.supervised and status.phase is Phase.RUNNING):
            raise
        while wait and not status.ready and time.monotonic() < began + timeout:
            time.sleep(_POLL_SEC)
            status = stack.status()
        if waiting := status.waiting_for():
            raise StackError(f"{error} Not ready: {', '.join(waiting)}. See `ulak dev logs`.") from None
        typer.echo(str(error))
        return
    except KeyboardInterrupt:
        typer.echo("Interrupted; what had been started is stopped.", err=True)
        raise typer.Exit(130) from None
    if not wait:
        typer.echo("Starting in the background. `ulak dev status` shows how far it is.")
        return
    if not status.ready:
        raise StackError(f"Not everything is ready. {status.error} `ulak dev down` stops what runs.")
    if sys.stdout.isatty():
        Console().print(_table(status))
    took = time.monotonic() - began
    typer.echo(f"Up in {took:.1f} s. Settings: ulak dev env. Logs: ulak dev logs. End: ulak dev down.")


_POLL_SEC = 0.2


@app.command("status")
def show_status(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False) -> None:
    """Show what runs and whether it is ready."""
    status = Stack.here().status()
    if as_json:
        typer.echo(json.dumps(status.public()))
    elif not status.supervised:
        crashed = status.phase not in {Phase.DOWN, Phase.FAILED}
        typer.echo(
            "The stack is down: its supervisor was killed. Start it again with `ulak dev up`."
            if crashed
            else "The stack is down. Start it with `ulak dev up`."
        )
    else:
        Console().print(_table(status))
        typer.echo("Ready." if status.ready else f"Not ready ({status.step or status.phase}). {status.error}".rstrip())


@app.command("env")
def show_environment() -> None:
    """Print the settings as KEY=value lines, to evaluate in a shell: set -a; eval "$(ulak dev env)"; set +a."""
    for name, value in Stack.here().environment().items():
        typer.echo(f"{name}={shlex.quote(value)}")


@app.command("logs")
def show_logs(
    name: Annotated[str | None, typer.Argument(help="A process of `ulak dev status`; all of them without it.")] = None,
    *,
    keep_following: Annotated[bool, typer.Option("-f", "--follow", help="Go on as they grow.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="Lines of each from its end.")] = 50,
) -> None:
    """Show the logs, also those of the last run."""
    stack = Stack.here()
    found = sorted(stack.paths.logs.glob("*.log"))
    if name is not None:
        chosen = [log for log in found if log.stem == name]
        if not chosen:
            known = ", ".join(log.stem for log in found) or "none yet: start the stack with `ulak dev up`"
            raise StackError(f"There is no log of {name}. There are: {known}.")
        found = chosen
    if not found:
        raise NotRunningError("There are no logs yet. Start the stack with `ulak dev up`.")
    width = max(len(log.stem) for log in found)
    prefix: Callable[[str], str] = (lambda stem: f"{stem:<{width}} | ") if name is None else lambda _: ""
    for log in found:
        for line in tail(log, lines):
            typer.echo(prefix(log.stem) + line)
    if keep_following:
        try:
            for log, line in follow(found, lambda: not stack.status().supervised):
                typer.echo(prefix(log.stem) + line)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


@app.command()
def down(*, wipe: Annotated[bool, typer.Option(help="Remove all its data, too.")] = False) -> None:
    """Stop the stack, in good order. Its data stays, unless --wipe says otherwise."""
    was_up = Stack.here().down(wipe=wipe)
    said = "Stopped." if was_up else "The stack was down already."
    typer.echo(f"{said} Its data is removed." if wipe else said)


@contextmanager
def _progress() -> Iterator[Callable[[StackStatus], None]]:
    """Show the current step while it starts; nothing when nobody is watching a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("Starting") as shown:

        def watch(status: StackStatus) -> None:
            ready = sum(item.state is ProcessState.READY for item in status.processes)
            shown.update(f"{status.step or 'Starting'}  [dim]{ready} of {len(status.processes)} ready[/dim]")

        yield watch


def _table(status: StackStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("name", "kind", "state", "pid", "restarts", "address"):
        table.add_column(heading)
    for item in status.processes:
        color = {"ready": "green", "back-off": "red", "not-ready": "red"}.get(item.state, "yellow")
        table.add_row(
            item.name, item.kind, f"[{color}]{item.state}[/{color}]", str(item.pid or ""), str(item.restarts),
            item.url or "",
        )  # fmt: skip
    return table
