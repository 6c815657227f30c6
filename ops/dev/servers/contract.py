"""What the supervisor and the tests know of a server: how to prepare, run and ask it."""

import logging
from pathlib import Path
from typing import Protocol

from ops.dev.errors import StackError
from ops.dev.files import tail
from ops.dev.processes import Command, Watchdog, run_to_end


class Server(Protocol):
    """One server process with its data in one folder."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str:
        """The value of the server's ULAK_* setting; may hold a password."""
        ...

    async def prepare(self, watchdog: Watchdog) -> None:
        """Make data and configuration ready; keeps data that is there. Raises StackError."""
        ...

    def command(self) -> Command:
        """The program that runs it in the foreground; call after `prepare`."""
        ...

    async def check(self) -> None:
        """Connect for real and ask something. Raises an exception of the client's while it cannot answer."""
        ...

    def wipe(self) -> None:
        """Remove its data, also where it lies outside the folder. The server must be down."""
        ...


async def run_once(what: str, command: Command, log: Path, watchdog: Watchdog) -> None:
    """Run a short preparing program to its end; `what` completes "Cannot ...". Raises StackError with its last words.

    Whoever cancels this ends the program and all that it started.
    """
    if await run_to_end(command.argv[0].rpartition("/")[2], command, log, watchdog) != 0:
        raise StackError(f"Cannot {what}: {last_words_of(log)}")


def last_words_of(log: Path) -> str:
    """What the program that wrote this log said before it ended."""
    return last_words("\n".join(tail(log, 40)))


_TELLING = ("error", "fatal", "cannot", "could not", "exception")


def last_words(output: str) -> str:
    """The line of a failed program's output that most likely says why, with a remedy where the cause is known."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    line = (telling or lines or ["it ended without a word"])[-1]
    text = output.lower()
    if "no space left" in text or "disk quota" in text:
        return "the disk is full. Free some space, or move the stack with ULAK_STATE_DIR."
    if "address already in use" in text:
        return "its port was taken by another program meanwhile. Run the command again: it picks another one."
    return line.rstrip(".") + "."


QUIET = logging.getLogger("ops.dev.quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
