"""`ulak demo`: the guided main job on a fresh embedded stack."""

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from ops.cli.errors import CommandError
from ops.demo.chapter import Chapter, Told
from ops.demo.stack import DemoStack
from ops.demo.story import STORY
from ops.demo.world import DidNotHappenError, open_world


def demo(
    once: Annotated[bool, typer.Option("--once", help="End the stack and exit after the story.")] = False,
) -> None:
    """Start a fresh stack, tell the story of an order and a login code, show what arrived where.

    Without --once the stack stays up on a terminal until Enter or Ctrl-C, so that you can send something yourself.
    Exit code 0 only if everything arrived as told.
    """
    console = Console(highlight=False)
    stack = DemoStack(Path(os.environ.get("ULAK_STATE_DIR", ".ulak")).resolve() / "demo")
    started = time.monotonic()
    failed = True
    try:
        console.print(
            "[bold]Starting a whole Ulak[/bold]: Kafka, PostgreSQL, Valkey, a provider simulator, all services."
        )
        settings = stack.up()
        failed = not asyncio.run(_tell(console, settings))
        console.print(f"\nTold in {time.monotonic() - started:.0f} s.")
        stays = not once and sys.stdin.isatty()
        _where_next(console, settings, stack, stays=stays)
        if stays:
            console.print("\n[bold]The stack stays up.[/bold] Press Enter (or Ctrl-C) to end it.")
            sys.stdin.readline()
    except KeyboardInterrupt:
        console.print("\nEnding.")
    finally:
        _end(console, stack)
    if failed:
        raise CommandError("Not everything arrived as told: see above.")


async def _tell(console: Console, settings: Mapping[str, str]) -> bool:
    """Tell every chapter in order, the slow one beside the others; True if all came true."""
    async with open_world(settings) as world:
        tasks = [(chapter, asyncio.create_task(chapter.tell(world))) for chapter in STORY if chapter.alongside]
        told_well = True
        for number, chapter in enumerate(STORY, 1):
            with console.status(f"{number}. {chapter.title}..."):
                task = next((task for known, task in tasks if known is chapter), None)
                told_well &= await _one(console, number, chapter, task or asyncio.create_task(chapter.tell(world)))
        return told_well


async def _one(console: Console, number: int, chapter: Chapter, task: asyncio.Task[Told]) -> bool:
    try:
        told = await task
    except DidNotHappenError as error:
        console.print(f"[red]✗ {number}. {chapter.title}[/red]\n    {error}")
        return False
    console.print(f"[green]✓[/green] [bold]{number}. {chapter.title}[/bold]")
    table = Table.grid(padding=(0, 2))
    for line in told.lines:
        took = "" if line.seconds is None else f"{line.seconds * 1000:,.0f} ms after acceptance"
        table.add_row("   ", line.what, f"→ {line.where}", took)
    console.print(table)
    if told.quote:
        console.print(Panel(told.quote, title="the e-mail as the receiver's server got it", expand=False))
    return True


def _where_next(console: Console, settings: Mapping[str, str], stack: DemoStack, *, stays: bool) -> None:
    if stays:
        console.print("\n[bold]Where to look next[/bold]")
        console.print(f"  what arrived   {settings['ULAK_SIMULATOR_URL']}/_sim/messages", soft_wrap=True)
        console.print(f"  logs           {stack.state_dir / 'logs'}", soft_wrap=True)
        start = f"export $(ULAK_STATE_DIR={stack.state_dir} .venv/bin/ulak dev env)"
    else:
        start = ".venv/bin/ulak dev up && export $(.venv/bin/ulak dev env)"
    console.print("\n[bold]Send your own first notification[/bold]" + (" (in another terminal)" if stays else ""))
    console.print(f"  {start}", soft_wrap=True)
    console.print(
        "  .venv/bin/ulak send --type ORDER_SHIPPED --user 7"
        " --param orderNo=1 --param carrier='Kargo A' --param trackingUrl=https://kargo.example/1",
        soft_wrap=True,
    )
    console.print("  .venv/bin/ulak why ntf_...      # the id that the line above printed")
    console.print("\nHow it works: docs/architecture.md")


def _end(console: Console, stack: DemoStack) -> None:
    with console.status("Ending the stack..."):
        stack.down()
    console.print("The stack has ended; nothing stays behind.")
