"""Starting programs that never outlive whoever started them.

Three nets, each for what the one before lets through: the kernel's parent-death signal (Linux), a watchdog that sees
its pipe close, and a clean-up of the processes listed in the state file at the next `up` or `down`.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from ops.dev.errors import explain_os_error
from ops.dev.files import forget, tail

_LAUNCH = Path(__file__).with_name("launch.py")
_WATCHDOG = Path(__file__).with_name("watchdog.py")
_POLL_SEC = 0.02


@dataclass(frozen=True, slots=True)
class User:
    """An account to run as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `user` is None for the caller's own account.

    stop_signal asks it to end in good order; death_signal ends it when its supervisor is gone.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(repr=False)
    user: User | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL


def identity_of(pid: int) -> str | None:
    """What tells this process from a later one that got the same id; None when there is no such process.

    Linux counts ticks since boot, which do not move when the clock is set, so the boot's id goes with them.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the program's name in parentheses and may hold blanks; field 22 is the start time.
        fields = text.rpartition(")")[2].split()
        if fields[0] == "Z":
            return None
        return f"{_boot_id()}:{fields[19]}"
    except FileNotFoundError:
        pass
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return "boot"


def signal_group(pid: int, number: signal.Signals) -> bool:
    """Signal a child's whole process group. False when nothing of it is left."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # macOS answers EPERM when only zombies are left.
        return False
    return True


class Watchdog:
    """The process that ends our children when we are gone. Open it before the first child, close it after the last."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", str(_WATCHDOG)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    @classmethod
    @contextmanager
    def open(cls) -> Iterator["Watchdog"]:
        watchdog = cls()
        try:
            yield watchdog
        finally:
            watchdog.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def add(self, group: int, death_signal: signal.Signals) -> None:
        self._tell(f"+{group} {int(death_signal)}\n")

    def remove(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Whatever is still listed is ended now; returns when the watchdog has done so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # A watchdog that somebody killed is a net less, no reason to stop: the parent-death signal remains.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


class Child:
    """One started program: its process group's leader."""

    def __init__(self, name: str, command: Command, process: "subprocess.Popen[bytes]", watchdog: Watchdog) -> None:
        self.name = name
        self.command = command
        self.pid = process.pid
        self.identity = identity_of(process.pid) or ""
        self._process = process
        self._watchdog = watchdog
        self._gone = False

    def exit_code(self) -> int | None:
        """None while it runs. The first call after its end also ends what it left in its process group."""
        code = self._process.poll()
        if code is not None and not self._gone:
            self._gone = True
            signal_group(self.pid, signal.SIGKILL)
            self._watchdog.remove(self.pid)
        return code

    def ask_to_stop(self) -> None:
        """Send its stop signal to the program itself, which knows how to end its own children."""
        if self.exit_code() is None:
            self._process.send_signal(self.command.stop_signal)

    def kill(self) -> None:
        """End the whole group now."""
        if self.exit_code() is None:
            signal_group(self.pid, signal.SIGKILL)
            self._process.wait()
            self.exit_code()


def spawn(name: str, command: Command, log: Path, watchdog: Watchdog, output: Path | None = None) -> Child:
    """Start a program in its own session, what it prints appended to `log`.

    `output` takes its standard output instead, readable by the owner only, replacing what was there.

    Call it in a thread that lives as long as the child may: Linux sends the parent-death signal when the thread that
    forked ends, not when the process does. Raises StackError when the system refuses.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        user = f"{command.user.uid}:{command.user.gid}" if command.user else "-"
        launcher = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), user, str(int(command.death_signal))]
        # Append mode: the supervisor may truncate a log that grew too long under its writer.
        with contextlib.ExitStack() as stack:
            messages = stack.enter_context(log.open("ab"))
            printed = messages if output is None else stack.enter_context(_open_private(output))
            process = subprocess.Popen(  # noqa: S603 - the stack's own tables say what runs
                [*launcher, *command.argv],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=messages,
                cwd=command.cwd,
                env=dict(command.environment),
                start_new_session=True,
            )
    except OSError as error:
        raise explain_os_error(error, f"start {name}") from error
    watchdog.add(process.pid, command.death_signal)
    return Child(name, command, process, watchdog)


async def run_to_end(
    name: str,
    command: Command,
    log: Path,
    watchdog: Watchdog,
    output: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> int:
    """Run a program with a log of this run only, and return its exit code. `say` gets each last line of that log.

    Whoever cancels this ends the program and all that it started.
    """
    forget(log)
    child = spawn(name, command, log, watchdog, output)
    said = ""
    try:
        while (code := child.exit_code()) is None:
            await asyncio.sleep(_POLL_SEC)
            line = "".join(tail(log, 1))
            if line != said:
                said = line
                say(line)
    finally:
        child.kill()
    return code


def _open_private(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def end_left_over(pid: int, identity: str) -> bool:
    """End a process group that an earlier supervisor left, if it is still that one. True when there was one."""
    if not identity or identity_of(pid) != identity:
        return False
    return signal_group(pid, signal.SIGKILL)
